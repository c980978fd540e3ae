//! Questions in SQL that every database answers alike: what differs between the databases is here.

use std::fmt;

/// A database's own SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    #[cfg(feature = "postgres")]
    Postgres,
}

/// The names of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableNames {
    pub(crate) runs: &'static str,
    pub(crate) requests: &'static str,
    /// The lines, each by itself.
    pub(crate) lines: &'static str,
    /// The rows in which signals are, each by itself.
    pub(crate) signals: &'static str,
    pub(crate) contents: &'static str,
    pub(crate) open_requests: &'static str,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Int(i64),
    Text(String),
}

/// The conditions of a question, and the values of its parameters.
#[derive(Debug)]
pub(crate) struct Conditions {
    dialect: Dialect,
    conditions: Vec<String>,
    pub(crate) values: Vec<Value>,
}

impl Dialect {
    /// Returns the names of the tables.
    pub(crate) const fn tables(self) -> TableNames {
        match self {
            Self::Sqlite => TableNames {
                runs: "runs",
                requests: "requests",
                lines: "lines",
                signals: "events",
                contents: "contents",
                open_requests: "open_requests",
            },
            #[cfg(feature = "postgres")]
            Self::Postgres => TableNames {
                runs: "softland_ledger_runs",
                requests: "softland_ledger_requests",
                lines: "softland_ledger_lines",
                signals: "softland_ledger_lines",
                contents: "softland_ledger_contents",
                open_requests: "softland_ledger_open_requests",
            },
        }
    }

    /// Returns the day of a time in milliseconds, in UTC.
    pub(crate) fn day_of(self, time: &str) -> String {
        match self {
            Self::Sqlite => format!("strftime('%Y-%m-%d', {time} / 1000, 'unixepoch')"),
            #[cfg(feature = "postgres")]
            Self::Postgres => format!(
                "to_char(to_timestamp({time} / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD') COLLATE \"C\""
            ),
        }
    }

    /// Returns the sum of a column as a whole number; 0 without rows.
    pub(crate) fn sum_of(self, column: &str) -> String {
        match self {
            Self::Sqlite => format!("coalesce(sum({column}), 0)"),
            // The sum of whole numbers is a decimal.
            #[cfg(feature = "postgres")]
            Self::Postgres => format!("coalesce(sum({column}), 0)::bigint"),
        }
    }

    /// Returns the limit for this number of rows.
    pub(crate) fn limit(rows: Option<usize>) -> String {
        rows.map_or(String::new(), |rows| format!("LIMIT {}", to_sql_int(rows as u64)))
    }
}

impl Conditions {
    /// Creates conditions that every row meets.
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, conditions: Vec::new(), values: Vec::new() }
    }

    /// Adds a parameter, and returns its place in the SQL.
    pub(crate) fn bind(&mut self, value: Value) -> String {
        self.values.push(value);
        let at = self.values.len();
        match (self.dialect, self.values.last()) {
            #[cfg(feature = "postgres")]
            (Dialect::Postgres, Some(Value::Int(_))) => format!("${at}::bigint"),
            #[cfg(feature = "postgres")]
            (Dialect::Postgres, _) => format!("${at}::text"),
            (Dialect::Sqlite, _) => format!("?{at}"),
        }
    }

    pub(crate) fn bind_text(&mut self, text: &str) -> String {
        self.bind(Value::Text(text.to_owned()))
    }

    pub(crate) fn bind_int(&mut self, number: u64) -> String {
        self.bind(Value::Int(to_sql_int(number)))
    }

    pub(crate) fn bind_key(&mut self, number: i64) -> String {
        self.bind(Value::Int(number))
    }

    /// Adds a condition.
    pub(crate) fn add(&mut self, condition: impl Into<String>) {
        self.conditions.push(condition.into());
    }

    /// Adds the condition that a column is this text, if there is one.
    pub(crate) fn equal(&mut self, column: &str, text: Option<&str>) {
        if let Some(text) = text {
            let value = self.bind_text(text);
            self.add(format!("{column} = {value}"));
        }
    }

    /// Adds the condition that a column is this number or more.
    pub(crate) fn at_least(&mut self, column: &str, number: Option<u64>) {
        if let Some(number) = number {
            let value = self.bind_int(number);
            self.add(format!("{column} >= {value}"));
        }
    }

    /// Adds the condition that a column is less than this number.
    pub(crate) fn less_than(&mut self, column: &str, number: Option<u64>) {
        if let Some(number) = number {
            let value = self.bind_int(number);
            self.add(format!("{column} < {value}"));
        }
    }

    /// Adds the condition that the account is this one, or below it.
    pub(crate) fn below_account(&mut self, account: Option<&str>) {
        if let Some(account) = account {
            let of = self.bind_text(account);
            self.add(format!(
                "(account = {of} OR substr(account, 1, length({of}) + 1) = {of} || '/')"
            ));
        }
    }

    /// Adds the condition that one of the columns has this text in it, in ASCII letters of any case.
    pub(crate) fn contain(&mut self, columns: &str, text: Option<&str>) {
        if let Some(text) = text {
            let text = self.bind_text(text);
            self.add(match self.dialect {
                Dialect::Sqlite => {
                    format!("instr(lower(concat_ws(char(10), {columns})), lower({text})) > 0")
                }
                #[cfg(feature = "postgres")]
                Dialect::Postgres => format!(
                    "strpos(lower(concat_ws(chr(10), {columns}) COLLATE \"C\"), \
                     lower({text} COLLATE \"C\")) > 0"
                ),
            });
        }
    }
}

/// All conditions, each of which has to be met.
impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conditions.as_slice() {
            [] => f.write_str("1 = 1"),
            all => f.write_str(&all.join(" AND ")),
        }
    }
}

/// Converts an integer for SQL. A number too large becomes SQL's largest.
pub(crate) fn to_sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
