//! A statement whose parameters stay bound from one execution to the next: most values of a batch
//! are the same as in the row before.

use rusqlite::{CachedStatement, Connection};

/// A statement and the current values of its parameters.
pub(super) struct BoundStatement<'a, 'b> {
    statement: CachedStatement<'a>,
    standing: Vec<BoundValue<'b>>,
}

/// The value to which a parameter is bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum BoundValue<'b> {
    Null,
    Int(i64),
    Text(&'b str),
    /// A text that is not compared.
    Other,
}

impl<'a, 'b> BoundStatement<'a, 'b> {
    /// Takes a statement from the connection's cache, which resets all parameters.
    pub(super) fn new(db: &'a Connection, sql: &str) -> rusqlite::Result<Self> {
        let statement = db.prepare_cached(sql)?;
        let standing = vec![BoundValue::Null; statement.parameter_count()];
        Ok(Self { statement, standing })
    }

    /// Binds an integer. Parameters are counted from 1. A number too large for SQLite becomes
    /// SQLite's largest.
    pub(super) fn bind_int(
        &mut self,
        at: usize,
        value: impl Into<Option<u64>>,
    ) -> rusqlite::Result<()> {
        let value = value.into().map(|number| i64::try_from(number).unwrap_or(i64::MAX));
        let news = value.map_or(BoundValue::Null, BoundValue::Int);
        if self.replace_binding(at, news) {
            return Ok(());
        }
        match value {
            Some(value) => self.statement.raw_bind_parameter(at, value),
            None => self.statement.raw_bind_parameter(at, rusqlite::types::Null),
        }
    }

    /// Binds a database id.
    pub(super) fn bind_id(&mut self, at: usize, id: i64) -> rusqlite::Result<()> {
        if self.replace_binding(at, BoundValue::Int(id)) {
            return Ok(());
        }
        self.statement.raw_bind_parameter(at, id)
    }

    /// Binds a text that the next row may repeat.
    pub(super) fn bind_text<'t: 'b>(
        &mut self,
        at: usize,
        text: impl Into<Option<&'t str>>,
    ) -> rusqlite::Result<()> {
        let text = text.into();
        if self.replace_binding(at, text.map_or(BoundValue::Null, BoundValue::Text)) {
            return Ok(());
        }
        match text {
            Some(text) => self.statement.raw_bind_parameter(at, text),
            None => self.statement.raw_bind_parameter(at, rusqlite::types::Null),
        }
    }

    /// Binds a text that no other row repeats.
    pub(super) fn bind_unique_text(&mut self, at: usize, text: &str) -> rusqlite::Result<()> {
        self.replace_binding(at, BoundValue::Other);
        self.statement.raw_bind_parameter(at, text)
    }

    pub(super) fn execute(&mut self) -> rusqlite::Result<()> {
        self.statement.raw_execute().map(drop)
    }

    /// Notes the new value of a parameter. Returns true if the parameter already had that value.
    fn replace_binding(&mut self, at: usize, news: BoundValue<'b>) -> bool {
        // A parameter that does not exist is left for SQLite to refuse.
        let Some(standing) = self.standing.get_mut(at.wrapping_sub(1)) else { return false };
        std::mem::replace(standing, news) == news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Texts = (Option<u64>, Option<&'static str>, &'static str);

    #[test]
    fn each_row_says_its_own_and_nothing_of_the_one_before() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t (id, number, text, own)").unwrap();
        let rows: [Texts; 8] = [
            (None, None, "a"),
            (Some(1), Some("x"), "a"),
            (Some(1), Some("x"), "b"),
            (None, Some("x"), "b"),
            (Some(1), None, "b"),
            (Some(0), Some(""), ""),
            (Some(u64::MAX), Some("y"), ""),
            (None, None, "a"),
        ];
        let mut statement = BoundStatement::new(&db, "INSERT INTO t VALUES (?, ?, ?, ?)").unwrap();
        for (id, (number, text, own)) in (0..).zip(rows) {
            statement.bind_id(1, id).unwrap();
            statement.bind_int(2, number).unwrap();
            statement.bind_text(3, text).unwrap();
            statement.bind_unique_text(4, own).unwrap();
            statement.execute().unwrap();
        }
        // The next to take it from the cache finds nothing bound.
        drop(statement);
        let mut again = BoundStatement::new(&db, "INSERT INTO t VALUES (?, ?, ?, ?)").unwrap();
        again.bind_id(1, 8).unwrap();
        again.execute().unwrap();
        let mut read = db.prepare("SELECT number, text, own FROM t ORDER BY id").unwrap();
        let read = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        let read: Vec<(Option<i64>, Option<String>, Option<String>)> =
            read.collect::<rusqlite::Result<_>>().unwrap();
        let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut expected: Vec<_> = rows
            .iter()
            .map(|(n, text, own)| (n.map(int), text.map(str::to_owned), Some((*own).to_owned())))
            .collect();
        expected.push((None, None, None));
        assert_eq!(read, expected);
    }

    #[test]
    fn a_parameter_that_is_not_there_is_refused() {
        let db = Connection::open_in_memory().unwrap();
        let mut statement = BoundStatement::new(&db, "SELECT ?").unwrap();
        assert!(statement.bind_int(2, 1).is_err());
        assert!(statement.bind_id(0, 1).is_err());
    }
}
