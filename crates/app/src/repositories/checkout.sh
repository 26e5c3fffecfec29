# Puts a repository into a directory, at one commit, and prints that commit. Everything else goes to stderr.
# Runs inside the environment, as whatever it lets in: nothing here is trusted by anybody outside.
set -eu
unset STEAD_CHECKOUT
url=$1 directory=$2 reference=$3 commit=$4 submodules=$5 partial=$6 on_changes=$7 name=$8 email=$9

say() { printf '%s\n' "$*" >&2; }
fail() { say "stead: $1"; [ -z "${2:-}" ] || say "hint: $2"; exit 1; }

command -v git >/dev/null 2>&1 || fail "there is no git in this environment" "install it, or use a root that has it"
# Nobody is there to be asked.
export GIT_TERMINAL_PROMPT=0

mkdir -p -- "$directory"
cd -- "$directory"
if [ -e .git ]; then
    present=$(git config --get remote.origin.url) || present=nothing
    [ "$present" = "$url" ] || fail "$directory is a checkout of $present" "name another directory, or remove this one"
    changed=$(git status --porcelain --untracked-files=normal --ignore-submodules=none)
    ahead=$(git rev-list --max-count=5 --oneline HEAD --not --remotes 2>/dev/null) || ahead=
    if [ "$on_changes" = fail ]; then
        [ -z "$changed" ] || { say "$changed"; fail "$directory has changes" "commit and push them, or discard them with --on-changes discard"; }
        [ -z "$ahead" ] || { say "$ahead"; fail "$directory has commits that were never pushed" "push them, or discard them with --on-changes discard"; }
    fi
else
    # One who begins in a directory with other things would mix them with what comes.
    [ -z "$(ls -A)" ] || [ "$on_changes" = discard ] || fail "$directory is not empty, and no checkout" "name another directory"
    git init --quiet .
    git remote add origin "$url"
fi
git config --get user.name >/dev/null || git config user.name "$name"
git config --get user.email >/dev/null || git config user.email "$email"

# A fresh token is not known everywhere at once, and networks fail for a moment.
fetch() {
    attempt=1
    until git fetch --progress --no-recurse-submodules $filter "$@" >&2; do
        [ "$attempt" -lt 3 ] || return 1
        say "trying again"
        sleep "$attempt"
        attempt=$((attempt + 1))
    done
}
filter=
[ "$partial" = no ] || filter=--filter=blob:none

cannot="the repository could not be fetched"
advice="is the host let out (\`stead env egress\`), and may the environment read the repository?"
branch=
case $reference in
    refs/heads/*) branch=${reference#refs/heads/} ;;
    refs/*)
        fetch --prune origin || fail "$cannot" "$advice"
        fetch origin "+$reference:refs/stead/asked" || fail "$reference could not be fetched" "is there such a reference?"
        wanted=$(git rev-parse --verify --quiet 'refs/stead/asked^{commit}') || fail "$reference is no commit"
        ;;
    *) branch=$reference ;;
esac
if [ -n "$branch" ] || [ -z "$reference" ]; then
    fetch --prune origin || fail "$cannot" "$advice"
    if [ -z "$branch" ]; then
        git remote set-head origin --auto >/dev/null 2>&1 || true
        branch=$(git symbolic-ref --quiet --short refs/remotes/origin/HEAD) || fail "the repository has no default branch" "name a ref"
        branch=${branch#origin/}
    fi
    wanted=$(git rev-parse --verify --quiet "refs/remotes/origin/$branch^{commit}") || {
        [ -n "$commit" ] || fail "the repository has no branch $branch" "name another ref"
        wanted=
    }
fi
if [ -n "$commit" ]; then
    # Of a branch that was deleted it may be all that is left.
    git cat-file -e "$commit^{commit}" 2>/dev/null || fetch origin "$commit" || fail "the repository has no commit $commit"
    [ "$wanted" = "$commit" ] || branch=
    wanted=$commit
fi

if [ "$on_changes" = discard ]; then
    git reset --quiet --hard 2>/dev/null || true
    git clean --quiet -ffd
fi
if [ -n "$branch" ]; then
    git checkout --quiet --force -B "$branch" "$wanted" >&2
    git branch --quiet --set-upstream-to="origin/$branch" >/dev/null
else
    git checkout --quiet --force --detach "$wanted" >&2
fi
if [ "$submodules" = yes ]; then
    git submodule --quiet sync --recursive
    git submodule update --init --recursive --force --progress >&2 || fail "a submodule could not be fetched" "may the environment use its repository?"
fi

# What was asked for is there, or nothing was done.
[ "$(git rev-parse HEAD)" = "$wanted" ] || fail "$directory is not at $wanted"
[ -n "$(git ls-files | head -n 1)" ] || fail "$wanted holds no file"
[ -z "$(git status --porcelain --untracked-files=no)" ] || fail "$directory is not as $wanted has it"
printf '%s\n' "$wanted"
