"""The types of the policy keys, for type checkers and editors. What a value means is decided elsewhere."""

from __future__ import annotations

from decimal import Decimal
from typing import List, Literal, Mapping, Tuple, TypedDict, Union

# Numbers, or their texts. A limit that is None is no limit.
Count = Union[int, str]
Limit = Union[int, str, None]
Money = Union[float, str, Decimal, None]
Share = Union[float, str]
Names = Union[str, List[str], Tuple[str, ...]]


class PolicyKeys(TypedDict, total=False):
    """Every policy key; docs/reference/policy.md says what each means."""

    mode: Literal["enforce", "observe"]
    tool_calls_limit: Limit
    tool_limits: Mapping[str, int]
    turns_limit: Limit
    result_chars_limit: Limit
    tokens_limit: Limit
    cost_limit_usd: Money
    session_cost_limit_usd: Money
    time_limit: Union[str, None]
    countdown: Literal["every", "milestones", "off"]
    countdown_from: Share
    warn_at: Share
    batch: Literal["first", "all", "none"]
    landing: Literal["auto", "ask", "none", "respond", "stop"]
    answer_tool: Names
    empty_limit: Count
    stale_limit: Count
    repeat_limit: Count
    poll_limit: Count
    cycle_limit: Count
    error_limit: Count
    loop_keys: Mapping[str, Names]
    on_loop: Literal["ladder", "land", "stop", "observe"]
    reserve_tokens: Count
    reserve_time: str
    run_boundary: Literal["human", "conversation", "header"]
    on_store_loss: Literal["closed", "open"]
