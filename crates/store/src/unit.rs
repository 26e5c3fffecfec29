//! A unit of work: statements that commit together.

use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use sqlx::pool::PoolConnection;
use sqlx::{Column, PgConnection, Postgres, Row as _, Transaction, TypeInfo};

use crate::backend::{postgres, sqlite};
use crate::clock::MachineClock;
use crate::error::{Result, StoreError};
use crate::sql::Sql;
use crate::value::{Row, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// With the machine's clock, for who has to know what the time is while it works, and with what is kept until the unit is over.
pub struct Unit(pub(crate) Connection, pub(crate) Arc<dyn MachineClock>, pub(crate) Vec<Box<dyn Send>>);

pub(crate) enum Connection {
    Sqlite(rusqlite::Connection),
    PostgresTransaction(Transaction<'static, Postgres>),
    PostgresReader(PoolConnection<Postgres>),
}

impl Unit {
    pub fn dialect(&self) -> Dialect {
        match self.0 {
            Connection::Sqlite(_) => Dialect::Sqlite,
            _ => Dialect::Postgres,
        }
    }

    pub(crate) fn new(connection: Connection, clock: Arc<dyn MachineClock>) -> Self {
        Self(connection, clock, Vec::new())
    }

    /// Keeps something until what this unit wrote is there for everybody, or never will be: also when nobody waits for that any more.
    pub fn keep_until_over(&mut self, kept: impl Send + 'static) {
        self.2.push(Box::new(kept));
    }

    /// Runs a statement and tells how many rows it changed.
    pub async fn execute(&mut self, sql: &'static str, values: &[Value]) -> Result<u64> {
        self.run(sql, values).await
    }

    /// Runs a query and gives all its rows.
    pub async fn fetch(&mut self, sql: &'static str, values: &[Value]) -> Result<Vec<Row>> {
        self.query(sql, values).await
    }

    /// The first row, if there is one.
    pub async fn fetch_optional(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    /// Like [`Unit::fetch_optional`], and keeps others from changing the row until the unit ends. The statement names the locked table `t`.
    /// SQLite has one writer and needs no more. On PostgreSQL rows that point at the locked one can still be written: no unit changes an id.
    pub async fn fetch_locked(&mut self, sql: &'static str, values: &[Value]) -> Result<Option<Row>> {
        let rows = match self.dialect() {
            Dialect::Sqlite => self.query(sql, values).await?,
            Dialect::Postgres => self.query(&format!("{sql} FOR NO KEY UPDATE OF t"), values).await?,
        };
        Ok(rows.into_iter().next())
    }

    pub async fn fetch_built(&mut self, sql: &Sql) -> Result<Vec<Row>> {
        self.query(sql.text(), sql.values()).await
    }

    pub async fn execute_built(&mut self, sql: &Sql) -> Result<u64> {
        self.run(sql.text(), sql.values()).await
    }

    pub(crate) async fn run(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        match &mut self.0 {
            Connection::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(&sqlite::placeholders(sql)).map_err(sqlite::error)?;
                let changed = statement.execute(rusqlite::params_from_iter(values.iter().map(Lent))).map_err(sqlite::error)?;
                Ok(changed as u64)
            }
            Connection::PostgresTransaction(transaction) => run_postgres(&mut *transaction, sql, values).await,
            Connection::PostgresReader(connection) => run_postgres(&mut *connection, sql, values).await,
        }
    }

    pub(crate) async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        match &mut self.0 {
            Connection::Sqlite(connection) => query_sqlite(connection, sql, values),
            Connection::PostgresTransaction(transaction) => query_postgres(&mut *transaction, sql, values).await,
            Connection::PostgresReader(connection) => query_postgres(&mut *connection, sql, values).await,
        }
    }

    /// Several statements at once, as migrations have them.
    pub(crate) async fn batch(&mut self, sql: &'static str) -> Result<()> {
        match &mut self.0 {
            Connection::Sqlite(connection) => connection.execute_batch(sql).map_err(sqlite::error),
            Connection::PostgresTransaction(transaction) => batch_postgres(&mut *transaction, sql).await,
            Connection::PostgresReader(connection) => batch_postgres(&mut *connection, sql).await,
        }
    }
}

/// A value lent to a statement.
struct Lent<'v>(&'v Value);

impl rusqlite::ToSql for Lent<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Value::Integer(Some(integer)) => ValueRef::Integer(*integer),
            Value::Blob(Some(bytes)) => ValueRef::Blob(bytes),
            Value::Text(None) | Value::Integer(None) | Value::Blob(None) => ValueRef::Null,
        }))
    }
}

fn query_sqlite(connection: &rusqlite::Connection, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(&sqlite::placeholders(sql)).map_err(sqlite::error)?;
    let columns = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(values.iter().map(Lent))).map_err(sqlite::error)?;
    let mut result = Vec::new();
    while let Some(row) = rows.next().map_err(sqlite::error)? {
        let mut read = Vec::with_capacity(columns);
        for column in 0..columns {
            read.push(match row.get_ref(column).map_err(sqlite::error)? {
                ValueRef::Null => Value::Text(None),
                ValueRef::Integer(integer) => Value::Integer(Some(integer)),
                ValueRef::Text(text) => Value::Text(Some(
                    String::from_utf8(text.to_vec()).map_err(|_| StoreError::Broken(format!("column {column} of a row is not UTF-8")))?,
                )),
                ValueRef::Blob(bytes) => Value::Blob(Some(bytes.to_vec())),
                ValueRef::Real(_) => return Err(StoreError::Broken(format!("column {column} of a row is a fraction"))),
            });
        }
        result.push(Row(read));
    }
    Ok(result)
}

/// The text is made of fixed fragments only: `Unit` takes `&'static str` or [`Sql`], so that this assertion holds.
fn prepare<'q>(sql: &str, values: &[Value]) -> sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments> {
    let mut query = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()));
    for value in values {
        query = match value {
            Value::Text(text) => query.bind(text.clone()),
            Value::Integer(integer) => query.bind(*integer),
            Value::Blob(bytes) => query.bind(bytes.clone()),
        };
    }
    query
}

async fn run_postgres(connection: &mut PgConnection, sql: &str, values: &[Value]) -> Result<u64> {
    let result = prepare(sql, values).execute(connection).await.map_err(postgres::error)?;
    Ok(result.rows_affected())
}

async fn query_postgres(connection: &mut PgConnection, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
    let rows = prepare(sql, values).fetch_all(connection).await.map_err(postgres::error)?;
    rows.iter()
        .map(|row| {
            let read = row.columns().iter().map(|column| {
                let at = column.ordinal();
                match column.type_info().name() {
                    "TEXT" | "VARCHAR" | "NAME" | "CHAR" => row.try_get(at).map(Value::Text),
                    "BYTEA" => row.try_get(at).map(Value::Blob),
                    "INT8" => row.try_get(at).map(Value::Integer),
                    "INT4" => row.try_get::<Option<i32>, _>(at).map(|value| Value::Integer(value.map(i64::from))),
                    other => return Err(StoreError::Broken(format!("column {at} of a row has the type {other}"))),
                }
                .map_err(postgres::error)
            });
            read.collect::<Result<Vec<_>>>().map(Row)
        })
        .collect()
}

async fn batch_postgres(connection: &mut PgConnection, sql: &'static str) -> Result<()> {
    sqlx::raw_sql(sql).execute(connection).await.map_err(postgres::error)?;
    Ok(())
}
