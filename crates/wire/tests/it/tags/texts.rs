//! Texts to shape: written by hand, each for a single case, and made by a generator.

use crate::tags::body::Seeded;

impl Seeded {
    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len())]
    }
}

/// Parts of texts: whole constructs, halves of them, and text that may be confused with them.
pub(crate) const PARTS: &[&str] = &[
    "Let me look. ",
    "haha haha",
    "\n",
    "\n\n",
    "\r\n",
    "   ",
    " ",
    "Größe — 東京 🦀 ",
    "a < b && c > d ",
    "<",
    "<use",
    "<use_tool",
    "<use_tool>",
    "</use_tool>",
    "</use_tool >",
    "<use_toolbox>",
    "<use_tool name=\"grep\">",
    "<use_tool name='a > b'\n x=1>",
    "<use_tool/>",
    "<use_tool is great>",
    "<tool>",
    "</tool>",
    "{\"name\":\"ls\",\"arguments\":{}}",
    "<use_tool>{\"name\":\"ls\",\"arguments\":{}}</use_tool>",
    "<use_tool>{\"name\":\"w\",\"arguments\":{\"t\":\"</use_tool>\"}}</use_tool>",
    "<use_tool>{\"name\":\"w\",\"arguments\":{\"t\":\"say \"hi\" </use_tool>\"}}</use_tool>",
    "<use_tool>{\"name\": tru e}</use_tool>",
    "<use_tool>\n<name>grep</name>\n<pattern>a</b></pattern>\n</use_tool>",
    "<use_tool><name>w</name><text>see </use_tool> and <use_tool></text></use_tool>",
    "<use_tool><name>w</name><args>{\"t\":\"</args></use_tool>\"}</args></use_tool>",
    "<use_tool><name>w</name><t>[\"x</t></use_tool>",
    "<use_tool><name>w</name><t><![CDATA[</t></use_tool>]]></t></use_tool>",
    "<use_tool><t>a<t>b</t>c</t> stray </use_tool>",
    "<use_tool>ls -la</use_tool>",
    "<tool>[1, 2]</tool>",
    "<tool>[1, \"\\\"]\", {\"a\": [[]]}]</tool>",
    "```\n",
    "```rust\n",
    "````\n",
    "``` ",
    "``",
    "`x`",
    "```x```",
    "~~~\n",
    "~~~~ txt\n",
    "  ```\n",
    "    ```\n",
    "<think>\n",
    "</think>\n",
    "<thinking>",
    "</thinking>",
    "[Tool Result] 3 files\n",
    "**Tool result:** 3 files\n",
    "Tool 'ls' result: a\n",
    "[ls for '/tmp'] Result: a\n",
    "<tool_result>\n",
    "</tool_result>\n",
    "<use_tool_output>",
    "Observation: it rains\n",
    "Tool",
    "[tool",
    "> ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ":",
    "<p>",
    "</p>",
    "<a/>",
    "<![CDATA[",
    "]]>",
    "</",
    "/>",
    "=",
    "'",
];

/// Texts by hand.
pub(crate) const BY_HAND: &[&str] = &[
    "",
    "Plain.",
    "Two lines.\nNo tag.\n",
    "a < b, and <b>bold</b>, and <use_toolbox>",
    "ends in <",
    "ends in <use",
    "ends in <use_tool",
    "ends in <use_tool name=\"x",
    "ends in </use_tool",
    "</use_tool> alone",
    "haha<use_tool>haha</use_tool>hahahaha",
    "I look.<use_tool>{\"name\":\"ls\"}</use_tool>",
    "<use_tool>{\"name\":\"ls\"}</use_tool>tail <use_tool>{\"name\":\"rm\"}",
    "<use_tool>{\"name\":\"ls\"}</use_tool>\n\n<use_tool>{\"name\":\"ls\"}</use_tool>\nend",
    "<use_tool>a</use_tool> x <use_tool>b</use_tool> y <use_tool>a</use_tool> z",
    "<use_tool><use_tool>{\"name\":\"ls\"}</use_tool></use_tool>",
    "<use_tool>{\"t\":\"<use_tool>x</use_tool>\"}</use_tool> after",
    "<use_tool>{\"t\":\"\\\"</use_tool>\\\\\"}</use_tool> after",
    "<use_tool>{\"t\":\"unclosed}</use_tool> after",
    "<use_tool>{\"t\":\"it's \"quoted\" </use_tool>\"}</use_tool> after",
    "<use_tool>[{\"name\":\"ls\"},{\"name\":\"rm\"}]</use_tool>",
    "<use_tool>\n```json\n{\"name\":\"ls\"}\n```\n</use_tool>",
    "<use_tool name=\"grep\">{\"pattern\":\"</use_tool>\"}</use_tool>!",
    "<use_tool name=\"a>b\" x='</use_tool>'>{}</use_tool>",
    "<use_tool name=grep/> and <use_tool name = \"ls\" />",
    "<use_tool is what you write> no call",
    "<use_tool =1> no call",
    "<use_tool a=\"<\">no call",
    "<use_tool\n>\n<name>ls</name>\n</use_tool\n>.",
    "<use_tool><name>w</name><content>a </use_tool> b</content></use_tool> tail",
    "<use_tool><name>w</name><content>a <content>b</content> c</content></use_tool> tail",
    "<use_tool><name>w</name><content>mentions <content> once</content></use_tool> tail",
    "<use_tool><name>w</name><query>unclosed</use_tool> tail",
    "<use_tool><name>w</name><args>{\"q\":\"</args>\"}</args></use_tool> tail",
    "<use_tool><name>w</name><md>[x] it's \"half</md><p>a\"b</p></use_tool> tail",
    "<use_tool><name>w</name><md>[\"half</md><p>a\"b</p></use_tool> tail",
    "<use_tool><name>w</name><c>  <![CDATA[ </c></use_tool> ]] ]]></c></use_tool> tail",
    "<use_tool><name>w</name><c><![CDATA[ </c></use_tool> tail",
    "<use_tool><name>w</name><c><![CDA</c></use_tool> tail",
    "<use_tool><a/><b x=\"1\"/>text<c>1</c></use_tool> tail",
    "<use_tool><3>x</3></use_tool> tail",
    "<use_tool></p></use_tool> tail",
    "<tool>a</use_tool>b</tool>c",
    "<tool><use_tool>x</use_tool></tool>",
    "```\n<use_tool>x</use_tool>\n```\n<use_tool>y</use_tool>\nz",
    "```xml\n<use_tool>x</use_tool>\n``\n<use_tool>y</use_tool>\n",
    "````\n```\n<use_tool>x</use_tool>\n````\n<use_tool>y</use_tool>.",
    "~~~\n```\n<use_tool>x</use_tool>\n~~~~  \n<use_tool>y</use_tool>.",
    "~~~ a`b\n<use_tool>x</use_tool>\n~~~ no\n~~~\n<use_tool>y</use_tool>.",
    "   ```\n<use_tool>x</use_tool>\n   ```\n<use_tool>y</use_tool>.",
    "    ```\n<use_tool>x</use_tool>\n",
    "```\n<use_tool>x</use_tool>\n    ```\n<use_tool>y</use_tool>",
    "```one line``` <use_tool>x</use_tool> t",
    "```<use_tool>x</use_tool>``` t",
    "``` <use_tool>x</use_tool>",
    "```\r\n<use_tool>x</use_tool>\r\n```\r\n<use_tool>y</use_tool>\r\nz",
    "text ```\n<use_tool>x</use_tool> t",
    "```\n<use_tool>x</use_tool>",
    "<use_tool>x</use_tool>```\n<use_tool>y</use_tool>\n```",
    "<use_tool>x</use_tool>\n```\n<use_tool>y</use_tool>\n```\nend",
    "<think>use <use_tool>x</use_tool>?</think><use_tool>y</use_tool> t",
    "<think>never closed <use_tool>x</use_tool>",
    "<thinking>\n```\n</thinking>\n<use_tool>y</use_tool>",
    "I <think> so <use_tool>y</use_tool> t",
    "<thin",
    "<think>x</thi",
    "<use_tool>x</use_tool>\n[Tool Result] 3 files\n<use_tool>y</use_tool> z",
    "[Tool Result] quoted first\n<use_tool>x</use_tool>",
    "<use_tool>x</use_tool> [tool result]: a",
    "<use_tool>x</use_tool>\n\n### Tool Result:\nabc",
    "<use_tool>x</use_tool>\n<tool_result name=\"x\">a</tool_result>",
    "<use_tool>x</use_tool><use_tool_result>a</use_tool_result>",
    "<use_tool>x</use_tool>\nTool 'read file' result: a\n",
    "<use_tool>x</use_tool>\nTool 'read <b>' result: a\n",
    "<use_tool>x</use_tool>\nThe tool result: a\n",
    "<use_tool>x</use_tool>\n```\n[Tool Result] a\n```\n",
    "<use_tool>x</use_tool>\n[read_file for 'a.txt'] Result:\nb",
    "<use_tool>x</use_tool>\n[a for 'b'] Result: for 'c'] result: d",
    "<use_tool>x</use_tool>\nObservation",
    "<use_tool>x</use_tool>\nObservation: <use_tool>y</use_tool>",
    "<use_tool>x</use_tool>\n<function_results>\n<use_tool>y</use_tool>",
    "<use_tool>x</use_tool>\n<｜tool▁outputs▁begin｜>x",
    "<use_tool>東京 🦀</use_tool>é<use_tool>é</use_tool>🦀",
    "🦀<🦀<use_tool>🦀<use_tool🦀>",
];

/// Texts by the generator.
pub(crate) fn generated(count: usize) -> Vec<String> {
    let mut seeded = Seeded(7);
    let mut texts = Vec::new();
    for _ in 0..count {
        let parts = 1 + seeded.below(14);
        let mut text = String::new();
        for _ in 0..parts {
            text.push_str(seeded.of(PARTS));
        }
        texts.push(text);
    }
    texts
}

/// Long lines, at the limits of the examined part.
pub(crate) fn long() -> Vec<String> {
    let mut texts = Vec::new();
    for length in [1015, 1018, 1019, 1020, 1021, 1022, 1023, 1024, 1025, 1026, 1030] {
        let pad = "x".repeat(length);
        let gap = " ".repeat(length);
        texts.push(format!("```{pad}\n<use_tool>a</use_tool>\n```\nb"));
        texts.push(format!("```{pad}`\n<use_tool>a</use_tool>\nb"));
        texts.push(format!("```{pad}"));
        texts.push(format!("<use_tool{gap}>a</use_tool>b"));
        texts.push(format!("<use_tool n=\"{pad}\">a</use_tool>b"));
        texts.push(format!("<use_tool>a</use_tool{gap}>b</use_tool>c"));
    }
    for length in [50, 62, 63, 64, 65, 66, 110, 120, 127, 128, 129] {
        let pad = "y".repeat(length);
        texts.push(format!("<use_tool>a</use_tool>\nTool '{pad}' result: b"));
        texts.push(format!("<use_tool>a</use_tool>\n{}Tool result: b", "*".repeat(length)));
        texts.push(format!("<use_tool>a</use_tool>\n[{pad} for '{pad}'] result: b"));
        texts.push(format!(
            "<use_tool>a</use_tool>\n[é{} for 'é'] result: b",
            "é".repeat(length / 2)
        ));
    }
    texts
}
