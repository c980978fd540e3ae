#!/usr/bin/env python3
"""Make crates/core/src/models/table.rs from the facts in the PyPI package genai-prices.

    python3 scripts/make_models.py            write the table
    python3 scripts/make_models.py --check    exit 1 if the committed table differs

The package is taken from `--package DIR` (an unpacked genai_prices folder), else from an
installed genai-prices of the pinned version, else downloaded with pip into a temporary
folder. Its data file is evaluated with plain record classes in place of its own, so that
none of its dependencies is needed. Only facts (ids, windows, prices) are taken over.
What is decided here, and why, is in docs/models.md.
"""

import argparse
import datetime
import fnmatch
import importlib.metadata
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
from decimal import ROUND_CEILING, Decimal

PACKAGE = "genai-prices"
VERSION = "0.2.3"
# Prices with a start date are taken as they are in force on this day.
TABLE_DATE = datetime.date(2026, 11, 21)
TABLE = pathlib.Path(__file__).resolve().parent.parent / "crates/core/src/models/table.rs"

# package's provider id -> ours
PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openrouter": "openrouter",
    "deepseek": "deepseek",
    "groq": "groq",
    "x-ai": "xai",
    "mistral": "mistral",
    "google": "google",
}
# The vendor that an OpenRouter id names before its slash -> our provider of that vendor.
VENDORS = {"anthropic": "anthropic", "openai": "openai", "deepseek": "deepseek"}

# Models that the package lacks and whose vendor says that they cost what another one costs.
# claude-api skill (github anthropics/skills, shared/models.md): "Mythos 5.1 - same
# capabilities, pricing, limits ... as Fable 5.1"; "Fable 5 / Mythos 5 ... same pricing tier".
SAME_AS = {
    ("anthropic", "claude-mythos-5"): "claude-fable-5",
    ("anthropic", "claude-mythos-5-1"): "claude-fable-5-1",
}

# Models that are newer than the package: (window, output, price, [(above, price)], source), prices
# in USD per million tokens in the order of KINDS. The long lifetime of OpenAI's cache is 12 hours.
NEWER = {
    ("openai", "gpt-6.2-sol"): (
        1_050_000,
        128_000,
        ("2", "10", "0.1", "2.5", "5"),
        [(272_000, ("4", "15", "0.2", "5", "10"))],
        "developers.openai.com/api/docs/models/gpt-6.2-sol (read 2026-11-26)",
    ),
}

# Output maxima, which the package does not have: (provider, glob of ids, tokens, source).
# The first row that matches counts; no row: unknown.
SKILL = "github anthropics/skills, skills/claude-api/shared/models.md"
OVERVIEW = "platform.claude.com/docs models overview (line-up of 2026-09)"
CATALOG = "platform.claude.com/docs/en/about-claude/models/overview, older tables"
OAI = "developers.openai.com/api/docs/models/<id>, 'max output tokens'"
MAX_OUTPUT = [
    ("anthropic", "claude-fable-5*", 128_000, SKILL),
    ("anthropic", "claude-mythos-5*", 128_000, SKILL),
    ("anthropic", "claude-opus-5*", 128_000, OVERVIEW),
    ("anthropic", "claude-sonnet-5*", 128_000, OVERVIEW),
    ("anthropic", "claude-haiku-5-5", 128_000, OVERVIEW),
    ("anthropic", "claude-opus-4-[678]", 128_000, SKILL),
    ("anthropic", "claude-sonnet-4-6", 128_000, SKILL),
    ("anthropic", "claude-haiku-4-5", 64_000, SKILL),
    ("anthropic", "claude-opus-4-5", 64_000, CATALOG),
    ("anthropic", "claude-sonnet-4-[05]", 64_000, CATALOG),
    ("anthropic", "claude-opus-4-[01]", 32_000, CATALOG),
    ("anthropic", "claude-3-7-sonnet-latest", 64_000, CATALOG),
    ("anthropic", "claude-3-5-*", 8_192, CATALOG),
    ("anthropic", "claude-3-*", 4_096, CATALOG),
    ("openai", "gpt-6.1-sol", 128_000, "Google Cloud partner model card of GPT 6.1 Sol"),
    ("openai", "gpt-5.6-sol", 128_000, "Vercel AI Gateway and Runware model cards of GPT-5.6 Sol"),
    ("openai", "gpt-5", 128_000, OAI),
    ("openai", "gpt-5-mini", 128_000, OAI),
    ("openai", "gpt-5-nano", 128_000, OAI),
    ("openai", "gpt-5.1", 128_000, OAI),
    ("openai", "gpt-5.2", 128_000, OAI),
    ("openai", "gpt-4.1*", 32_768, OAI),
    ("openai", "gpt-4o", 16_384, OAI),
    ("openai", "gpt-4o-mini", 16_384, OAI),
    ("openai", "o1", 100_000, OAI),
    ("openai", "o3", 100_000, OAI),
    ("openai", "o3-mini", 100_000, OAI),
    ("openai", "o4-mini", 100_000, OAI),
    ("deepseek", "deepseek-v4-flash", 393_216, "api-docs.deepseek.com/quick_start/pricing, 384K"),
    ("deepseek", "deepseek-flash", 393_216, "api-docs.deepseek.com/quick_start/pricing, 384K"),
    ("deepseek", "deepseek-v4-pro", 393_216, "api-docs.deepseek.com/quick_start/pricing, 384K"),
]

KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}


class Record:
    """Stands for any class of the package: its name and its keyword arguments."""

    def __init__(self, kind, fields):
        self.kind, self.fields = kind, fields

    def get(self, name):
        return self.fields.get(name)


class Names(dict):
    """Global names of the data file: every capitalised unknown one makes Records."""

    def __missing__(self, name):
        if not name[:1].isupper():
            raise KeyError(name)
        return lambda **fields: Record(name, fields)


def load(data_file):
    source = data_file.read_text(encoding="utf-8")
    source = source.replace("from .types import *", "")
    source = re.sub(r"^(\w+): .*? = ", r"\1 = ", source, flags=re.MULTILINE)
    names = Names(Decimal=Decimal, datetime=datetime)
    exec(compile(source, str(data_file), "exec"), names)  # noqa: S102 (pinned package)
    return {provider.get("id"): provider for provider in names["providers"]}


def installed():
    try:
        if importlib.metadata.version(PACKAGE) != VERSION:
            return None
    except importlib.metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec("genai_prices")
    return pathlib.Path(spec.origin).parent / "data.py" if spec and spec.origin else None


def download(folder):
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--target", folder, f"{PACKAGE}=={VERSION}"]
    subprocess.run(command, check=True)
    return pathlib.Path(folder) / "genai_prices/data.py"


def read_providers(package):
    if package:
        return load(pathlib.Path(package) / "data.py")
    if found := installed():
        return load(found)
    with tempfile.TemporaryDirectory() as folder:
        return load(download(folder))


def in_force(prices):
    """(price record on TABLE_DATE outside daily windows, [(from, until, price record)])."""
    if isinstance(prices, Record):
        return prices, []
    base, hours = prices[0].get("prices"), []
    for row in prices:
        rule = row.get("constraint")
        if rule is None:
            base = row.get("prices")
        elif rule.kind == "StartDateConstraint":
            if rule.get("start_date") <= TABLE_DATE:
                base = row.get("prices")
        elif rule.kind == "TimeOfDateConstraint":
            ends = [rule.get("start_time"), rule.get("end_time")]
            assert all(end.tzinfo == datetime.timezone.utc for end in ends), "UTC only"
            first, last = (end.hour * 60 + end.minute for end in ends)
            hours.append((first, last, row.get("prices")))
        else:
            raise SystemExit(f"unknown constraint {rule.kind}: teach in_force() about it")
    return base, hours


def pico(usd_per_million):
    """USD per million tokens -> pico-dollars per token, rounded up below one."""
    return int((Decimal(usd_per_million) * 1_000_000).to_integral_value(ROUND_CEILING))


def at(value, tokens):
    """A plain or tiered price of a prompt that is longer than `tokens`."""
    if not isinstance(value, Record):
        return value
    price = value.get("base")
    for tier in sorted(value.get("tiers"), key=lambda tier: tier.get("start")):
        if tier.get("start") <= tokens:
            price = tier.get("price")
    return price


def price(provider, record, tokens):
    """The five prices above a tier's start; what is missing is filled as docs/models.md says."""
    found = {name: at(record.get(key), tokens) for name, key in KINDS.items()}
    if found["input"] is None or found["output"] is None:
        return None
    given = found["input"]
    claude = provider == "anthropic"
    if found["cache_read"] is None:
        found["cache_read"] = given
    if found["cache_write"] is None:
        found["cache_write"] = given * Decimal("1.25") if claude else given
    if found["cache_write_1h"] is None:
        found["cache_write_1h"] = given * 2 if claude else found["cache_write"]
    return tuple(pico(found[name]) for name in KINDS)


def tiers_of(record):
    starts = set()
    for key in KINDS.values():
        if isinstance(record.get(key), Record):
            starts.update(tier.get("start") for tier in record.get(key).get("tiers"))
    return sorted(starts - {0})


def max_output(provider, model):
    vendor, slash, name = model.partition("/")
    if provider == "openrouter" and slash and vendor in VENDORS:
        provider, model = VENDORS[vendor], name
    if provider == "anthropic":
        model = model.replace(".", "-")
    for row_provider, glob, tokens, _source in MAX_OUTPUT:
        if row_provider == provider and fnmatch.fnmatchcase(model, glob):
            return tokens
    return None


def wanted(provider, model):
    """Batch prices are no prices of a live request; OpenRouter's ids name a vendor."""
    return not model.endswith(":batch") and (provider != "openrouter" or "/" in model)


def row_of(provider, model):
    name = model.get("id").lower()
    base, hours = in_force(model.get("prices"))
    if not base.fields and name.endswith(":free"):
        standard = (0, 0, 0, 0, 0)
    else:
        standard = price(provider, base, 0)
    if standard is None:
        return None
    return {
        "provider": provider,
        "id": name,
        "window": model.get("context_window"),
        "output": max_output(provider, name),
        "price": standard,
        "tiers": [(start, price(provider, base, start)) for start in tiers_of(base)],
        "hours": [(a, b, price(provider, row, 0)) for a, b, row in hours],
    }


def aliases_of(provider, name, match):
    """Exact further names of a model: `equals` clauses, and the stems of `starts with`."""
    found, clauses = set(), [match]
    while clauses:
        clause = clauses.pop()
        for key in ("or_", "and_"):
            clauses += clause.get(key) or [] if clause.kind != "ClauseAnd" else []
        for key in ("equals", "starts_with"):
            if text := clause.get(key):
                found.add(text.lower().rstrip("-@"))
    if name.endswith("-latest"):
        found.add(name.removesuffix("-latest"))
    if provider == "anthropic":
        found |= {re.sub(r"-(\d)-(\d)$", r"-\1.\2", text) for text in [name, *found]}
    return {text for text in found if text and text != name and wanted(provider, text)}


def collect(providers):
    rows, aliases = {}, {}
    for theirs, ours in PROVIDERS.items():
        for model in providers[theirs].get("models"):
            name = model.get("id").lower()
            row = row_of(ours, model) if wanted(ours, name) else None
            if row is None:
                continue
            assert (ours, name) not in rows, f"two rows for {ours}/{name}"
            rows[ours, name] = row
            for alias in aliases_of(ours, name, model.get("match")):
                # The package tries its models in order: the first one has the name.
                aliases.setdefault((ours, alias), name)
    for (provider, name), twin in SAME_AS.items():
        if (provider, name) not in rows:
            copy = dict(rows[provider, twin], id=name)
            rows[provider, name] = dict(copy, output=max_output(provider, name))
            for alias in aliases_of(provider, name, Record("ClauseEquals", {"equals": name})):
                aliases.setdefault((provider, alias), name)
    for (provider, name), (window, output, usd, tiers, _source) in NEWER.items():
        # Once the package has it, the row here is to go.
        assert (provider, name) not in rows, f"the package has {provider}/{name} now"
        rows[provider, name] = {
            "provider": provider,
            "id": name,
            "window": window,
            "output": output,
            "price": tuple(pico(value) for value in usd),
            "tiers": [(above, tuple(pico(value) for value in price)) for above, price in tiers],
            "hours": [],
        }
    aliases = {key: name for key, name in aliases.items() if key not in rows}
    return sorted(rows.values(), key=lambda row: (row["provider"], row["id"])), aliases


def number(value):
    return f"{value:_}"


def rust_price(values):
    return f"p({', '.join(number(value) for value in values)})"


def rust_row(row):
    window = "U" if row["window"] is None else f"Some({number(row['window'])})"
    output = "U" if row["output"] is None else f"Some({number(row['output'])})"
    tiers = ", ".join(f"t({number(start)}, {rust_price(p)})" for start, p in row["tiers"])
    hours = ", ".join(f"h({a}, {b}, {rust_price(p)})" for a, b, p in row["hours"])
    cells = [f'"{row["provider"]}"', f'"{row["id"]}"', window, output, rust_price(row["price"])]
    return f"    m({', '.join(cells)}, &[{tiers}], &[{hours}]),"


HEADER = """\
//! Prices, context windows and output maxima of models. Generated; do not edit.
//!
//! Made by `python3 scripts/make_models.py` from the data of the PyPI package
//! {package} {version} (MIT licence, github.com/pydantic/genai-prices), of which only facts
//! are taken: names, sizes and prices. Prices are those in force on the table's date, in
//! pico-dollars per token. How gaps are filled is in `docs/models.md`.

use super::{{Hours, Model, Price, Tier}};

/// The day whose prices the table holds.
pub const TABLE_DATE: &str = "{date}";

/// The package, with its version, that the facts come from.
pub const TABLE_SOURCE: &str = "{package} {version}";

/// Unknown.
const U: Option<u32> = None;

const fn p(input: u64, output: u64, cache_read: u64, write_5m: u64, write_1h: u64) -> Price {{
    Price {{ input, output, cache_read, cache_write_5m: write_5m, cache_write_1h: write_1h }}
}}

const fn t(above: u64, price: Price) -> Tier {{
    Tier {{ above, price }}
}}

const fn h(from_minute: u16, until_minute: u16, price: Price) -> Hours {{
    Hours {{ from_minute, until_minute, price }}
}}

const fn m(
    provider: &'static str,
    id: &'static str,
    context_window: Option<u32>,
    max_output: Option<u32>,
    price: Price,
    tiers: &'static [Tier],
    hours: &'static [Hours],
) -> Model {{
    Model {{ provider, id, context_window, max_output, price, tiers, hours }}
}}

/// All models, sorted by (provider, id).
#[rustfmt::skip]
pub(super) static MODELS: &[Model] = &[
"""


def render(providers):
    rows, aliases = collect(providers)
    text = HEADER.format(package=PACKAGE, version=VERSION, date=TABLE_DATE.isoformat())
    text += "\n".join(rust_row(row) for row in rows) + "\n];\n\n"
    text += "/// Further exact names: (provider, name, id in `MODELS`), sorted.\n"
    text += "#[rustfmt::skip]\npub(super) static ALIASES: &[(&str, &str, &str)] = &[\n"
    for (provider, alias), name in sorted(aliases.items()):
        text += f'    ("{provider}", "{alias}", "{name}"),\n'
    return text + "];\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--package", metavar="DIR", help="an unpacked genai_prices folder")
    args = parser.parse_args()
    text = render(read_providers(args.package))
    if not args.check:
        TABLE.write_text(text, encoding="utf-8")
        print(f"wrote {TABLE.name}: {text.count('    m(')} models")
    elif TABLE.read_text(encoding="utf-8") != text:
        sys.exit(f"{TABLE} differs from what {PACKAGE} {VERSION} gives; run this without --check")
    else:
        print(f"{TABLE.name} is up to date with {PACKAGE} {VERSION}")


if __name__ == "__main__":
    main()
