use unicode_width::UnicodeWidthStr as _;

use super::*;

/// Renders a text that arrives in pieces.
fn pieces(parts: &[&str], width: usize) -> Vec<Piece> {
    let mut markdown = Markdown::default();
    markdown.resize(width);
    let mut shown: Vec<Piece> = parts.iter().flat_map(|part| markdown.push(part)).collect();
    shown.extend(markdown.finish_text());
    shown
}

fn plain(pieces: &[Piece]) -> String {
    pieces.iter().map(|piece| piece.text.as_str()).collect()
}

fn shown(text: &str, width: usize) -> String {
    plain(&pieces(&[text], width))
}

const ALL: &str = "\
# The *berths*

We decided on **one price**, and `grep` says so: see [the notes](notes/pricing.md) or
<https://example.org>. A second sentence that is long enough to wrap.

- first
- second, which has `code`
  - nested
  - nested too

  a paragraph of the second
- [x] third

3. three
4. four

```rust
fn main() {
    let wide = \"a line of code that is wider than the terminal is and stays as it is\";

}
```

| name | price |
|---|---|
| small | 0 |
| **large** | 4 euros |

> quoted text
> goes on

---

The end.
";

#[test]
fn blocks_are_laid_out() {
    assert_eq!(
        shown(ALL, 50),
        "\
The berths

We decided on one price, and grep says so: see the
notes (notes/pricing.md) or https://example.org. A
second sentence that is long enough to wrap.

• first
• second, which has code
  • nested
  • nested too

  a paragraph of the second
• [x] third

3. three
4. four

  fn main() {
      let wide = \"a line of code that is wider than the terminal is and stays as it is\";

  }

name  │ price
──────┼────────
small │ 0
large │ 4 euros

│ quoted text goes on

────────────────────────────────────────

The end.
"
    );
}

#[test]
fn every_way_of_cutting_the_text_shows_the_same() {
    let whole = pieces(&[ALL], 50);
    let joined = |pieces: &[Piece]| {
        let mut all: Vec<Piece> = Vec::new();
        for piece in pieces {
            match all.last_mut() {
                Some(last) if last.style == piece.style => last.text.push_str(&piece.text),
                _ => all.push(piece.clone()),
            }
        }
        all
    };
    for size in [1, 2, 3, 7, 40] {
        let characters: Vec<char> = ALL.chars().collect();
        let parts: Vec<String> =
            characters.chunks(size).map(|part| part.iter().collect()).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        assert_eq!(plain(&pieces(&parts, 50)), plain(&whole), "{size}");
        assert_eq!(joined(&pieces(&parts, 50)), joined(&whole), "{size}");
    }
}

#[test]
fn what_is_finished_is_shown_at_once() {
    let mut markdown = Markdown::default();
    markdown.resize(80);
    let mut push = |text: &str| plain(&markdown.push(text));
    assert_eq!(push("# Head\n"), "Head\n");
    assert_eq!(push("A para"), "");
    assert_eq!(push("graph\ngoes on\n"), "");
    assert_eq!(push("\n"), "\nA paragraph goes on\n");
    assert_eq!(push("- one\n- two\n"), "\n• one\n");
    assert_eq!(push("- three\n"), "• two\n");
    assert_eq!(push("\n```\na\nb"), "• three\n\n  a\n");
    assert_eq!(push("\n"), "  b\n");
    assert_eq!(push("\nc\n``"), "\n  c\n");
    assert_eq!(push("`\n"), "");
    assert_eq!(push("end"), "");
    assert_eq!(plain(&markdown.finish_text()), "\nend\n");
}

#[test]
fn nothing_that_a_terminal_obeys_comes_out() {
    for text in [
        "a &#27;[2J b &#x9b;31m c\n",
        "[x](http://e.org/&#27;]0;t&#7;)\n",
        "```\n&#27;\u{202e}\n```\n",
        "| a&#27; |\n|---|\n| &#7; |\n",
        "`\u{1b}[1m` <b\u{7}>\n",
    ] {
        let shown = shown(text, 40);
        let bad = |c: char| c != '\n' && c.is_control() || c == '\u{202e}';
        assert!(!shown.contains(bad), "{text:?}: {shown:?}");
    }
}

#[test]
fn no_line_but_code_is_wider_than_the_terminal() {
    let deep: String =
        (0..40).map(|n| format!("{}- {} word\n", "  ".repeat(n), "w".repeat(90))).collect();
    let quoted = format!("{} {}\n", ">".repeat(60), "word ".repeat(40));
    let table = format!("| a | b |\n|---|---|\n| {} | {} |\n", "x ".repeat(60), "漢".repeat(60));
    for text in [ALL, &deep, &quoted, &table, "1000000000. x\n"] {
        for width in [20, 21, 33, 80] {
            for line in shown(text, width).lines().filter(|line| !line.contains("let wide")) {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn words_are_styled() {
    let styles = |text: &str| -> Vec<(Style, String)> {
        let all = pieces(&[text], 80).into_iter();
        all.filter(|p| p.style != Style::Plain).map(|p| (p.style, p.text)).collect()
    };
    assert_eq!(styles("a **b c** d"), [(Style::Bold, "b c".to_owned())]);
    assert_eq!(styles("*a*b"), [(Style::Emphasis, "a".to_owned())]);
    assert_eq!(styles("# x"), [(Style::Bold, "x".to_owned())]);
    assert_eq!(styles("`x y`"), [(Style::Code, "x y".to_owned())]);
    assert_eq!(styles("2 * 3 * 4 and a_b_c"), []);
}

#[test]
fn long_code_and_lists_are_read_in_time() {
    let mut text = "```\n".to_owned() + &"a line of code that is not short\n".repeat(20_000);
    text += "```\n";
    text += &"- an item\n".repeat(2_000);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let began = std::time::Instant::now();
    assert_eq!(plain(&pieces(&lines, 80)).lines().count(), 20_000 + 1 + 2_000);
    assert!(began.elapsed() < std::time::Duration::from_secs(60));
}
