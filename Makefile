# Two commands do everything: `make run` and `make test`. The rest is listed by `make help`.

SHELL := /bin/sh
CARGO ?= cargo
TARGET_DIRECTORY := $(or $(CARGO_TARGET_DIR),target)

# Where `make install` puts things. A shell that does not expand the tilde leaves it to us.
PREFIX ?= ~/.local
PLACE := $(abspath $(patsubst ~/%,$(HOME)/%,$(PREFIX)))
BIN := $(DESTDIR)$(PLACE)/bin
SHARE := $(DESTDIR)$(PLACE)/share

# cargo-nextest where it is installed, and what cargo brings where it is not.
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
TESTS := $(if $(NEXTEST),nextest run,test)

.DEFAULT_GOAL := help
.PHONY: help run deps test lint prove kernel bench install uninstall generate clean
.NOTPARALLEL:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

run: ## Build, start the local server, say where it is, and run a first command inside
	$(CARGO) build --profile fast -p stead
	@$(TARGET_DIRECTORY)/fast/stead up
	@scripts/first-command $(TARGET_DIRECTORY)/fast/stead
	@echo
	@echo "Try next:  export PATH=\"$(abspath $(TARGET_DIRECTORY))/fast:\$$PATH\" && stead run -- ls"
	@echo "Stop it:   $(TARGET_DIRECTORY)/fast/stead down"

deps: ## Install what the tests need (Debian packages), or say what is missing
	@scripts/dependencies

lint: ## Check formatting, lints and documentation comments
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --no-deps --document-private-items

test: deps lint ## Install what is missing, lint, and run every test
	$(if $(NEXTEST),$(CARGO) test --workspace --doc --quiet)
	$(CARGO) $(TESTS) --workspace

prove: deps ## Run every test with the proofs at their full size
	STEAD_PROVE=1 $(CARGO) $(TESTS) --workspace $(if $(NEXTEST),--profile prove)

kernel: ## Run tests of sandboxes, limits and quotas on Debian's kernel, in QEMU
	@scripts/dependencies kernel || true
	scripts/kernel/prove

bench: ## Measure beside native processes, containers and the locks of others; results are JSON and a picture
	@scripts/dependencies bench || true
	$(CARGO) build --release -p stead -p stead-bench
	$(TARGET_DIRECTORY)/release/stead-bench --out $(TARGET_DIRECTORY)/bench.json
	@echo "Written to $(TARGET_DIRECTORY)/bench.json and beside it"

install: ## Install the command, completion and a systemd user unit below PREFIX (default ~/.local)
	$(CARGO) build --release -p stead
	install -d $(BIN) $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions
	install -d $(SHARE)/fish/vendor_completions.d $(SHARE)/systemd/user
	install -m 755 $(TARGET_DIRECTORY)/release/stead $(BIN)/stead
	$(BIN)/stead completion bash > $(SHARE)/bash-completion/completions/stead
	$(BIN)/stead completion zsh > $(SHARE)/zsh/site-functions/_stead
	$(BIN)/stead completion fish > $(SHARE)/fish/vendor_completions.d/stead.fish
	sed 's|@BIN@|$(PLACE)/bin|g' packaging/stead.service > $(SHARE)/systemd/user/stead.service
	@echo
	@echo "Installed $(PLACE)/bin/stead. To keep a server running:"
	@echo "  systemctl --user daemon-reload && systemctl --user enable --now stead"

uninstall: ## Remove what `make install` put below PREFIX
	rm -f $(BIN)/stead $(SHARE)/bash-completion/completions/stead $(SHARE)/zsh/site-functions/_stead
	rm -f $(SHARE)/fish/vendor_completions.d/stead.fish $(SHARE)/systemd/user/stead.service

generate: ## Write the generated documentation anew
	STEAD_UPDATE_DOCS=1 $(CARGO) $(TESTS) -p stead-domain -p stead-api -p stead --lib --bins in_the_documentation_is_current
	STEAD_UPDATE_DOCS=1 $(CARGO) $(TESTS) -p stead-sandbox --test escapes

clean: ## Remove what was built
	$(CARGO) clean
