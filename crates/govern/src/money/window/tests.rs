use super::*;

fn window(length: &str, zone: &str) -> BudgetWindow {
    BudgetWindow::new(WindowLength::parse(length).unwrap(), zone).unwrap()
}

/// The time that a text in RFC 3339 names, in milliseconds since 1970.
fn at(text: &str) -> u64 {
    u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
}

#[test]
fn lengths_are_named_or_counted() {
    assert_eq!(WindowLength::parse("5h"), Some(WindowLength::Rolling(5 * 3_600_000)));
    assert_eq!(WindowLength::parse("90m"), Some(WindowLength::Rolling(90 * 60_000)));
    assert_eq!(WindowLength::parse("30d"), Some(WindowLength::Rolling(720 * 3_600_000)));
    for length in ["day", "week", "month", "5h", "90m"] {
        assert_eq!(WindowLength::parse(length).unwrap().to_string(), length);
    }
    for wrong in [
        "",
        "h",
        "0h",
        "-5h",
        "+5h",
        "5",
        "5s",
        "5 h",
        "1e3h",
        "Day",
        "5é",
        "9999999999999999999h",
        "367d",
    ] {
        assert_eq!(WindowLength::parse(wrong), None, "{wrong}");
    }
    assert_eq!(BudgetWindow::new(WindowLength::Day, "Mars/Olympus"), Err(UnknownZone));
    assert_eq!(window("day", "europe/berlin").name(), "day:Europe/Berlin");
    assert_eq!(window("5h", "Europe/Berlin").name(), "5h");
}

/// Days begin at midnight where the zone is, and last 23 or 25 hours where clocks are put on. The
/// instants are those that `date -d 'TZ="…" …' +%s` prints.
#[test]
fn windows_of_the_calendar_begin_at_midnight_of_their_zone() {
    for (length, zone, time, start, end) in [
        ("day", "UTC", "2026-11-27T12:00:00Z", "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"),
        ("day", "UTC", "2026-11-28T00:00:00Z", "2026-11-28T00:00:00Z", "2026-11-29T00:00:00Z"),
        // 23 hours: at 2:00 clocks are put to 3:00.
        (
            "day",
            "Europe/Berlin",
            "2026-03-29T12:00:00Z",
            "2026-03-28T23:00:00Z",
            "2026-03-29T22:00:00Z",
        ),
        // 25 hours: at 3:00 clocks are put to 2:00.
        (
            "day",
            "Europe/Berlin",
            "2026-10-25T12:00:00Z",
            "2026-10-24T22:00:00Z",
            "2026-10-25T23:00:00Z",
        ),
        (
            "day",
            "Asia/Kolkata",
            "2026-11-27T18:29:59Z",
            "2026-11-26T18:30:00Z",
            "2026-11-27T18:30:00Z",
        ),
        // Midnight does not exist: at 0:00 clocks are put to 1:00, and the day begins with that.
        (
            "day",
            "America/Havana",
            "2024-03-10T12:00:00Z",
            "2024-03-10T05:00:00Z",
            "2024-03-11T04:00:00Z",
        ),
        // Midnight comes twice: at 1:00 clocks are put to 0:00. The first one counts.
        (
            "day",
            "America/Havana",
            "2024-11-03T05:30:00Z",
            "2024-11-03T04:00:00Z",
            "2024-11-04T05:00:00Z",
        ),
        // The 30th of December 2011 does not exist.
        (
            "day",
            "Pacific/Apia",
            "2011-12-30T12:00:00Z",
            "2011-12-30T10:00:00Z",
            "2011-12-31T10:00:00Z",
        ),
        ("week", "UTC", "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
        (
            "week",
            "Pacific/Auckland",
            "2026-11-29T23:59:59Z",
            "2026-11-29T11:00:00Z",
            "2026-12-06T11:00:00Z",
        ),
        ("month", "UTC", "2028-02-29T23:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"),
        (
            "month",
            "America/New_York",
            "2026-11-01T03:00:00Z",
            "2026-10-01T04:00:00Z",
            "2026-11-01T04:00:00Z",
        ),
    ] {
        let span = TimeSpan { start: at(start), end: at(end) };
        assert_eq!(window(length, zone).span_at(at(time)), span, "{length} in {zone} at {time}");
    }
}

/// The bounds that a host computes hold for a state whose clock shows another hour, also across the
/// end of a window.
#[test]
fn bounds_hold_for_clocks_that_differ() {
    for zone in ["UTC", "Europe/Berlin", "America/Havana", "Pacific/Auckland"] {
        for length in ["day", "week", "month"] {
            let window = window(length, zone);
            for hour in 0..24 * 400 {
                let time = at("2024-01-01T00:30:00Z") + hour * 3_600_000;
                let bounds = window.bounds_at(time);
                for other in [time - 3_600_000, time, time + 3_600_000, time + 23 * 3_600_000] {
                    let span = bounds.find_span(other, None);
                    assert_eq!(span, Some(window.span_at(other)), "{length} in {zone} at {time}");
                    assert!(span.is_some_and(|span| span.contains(other)));
                }
            }
        }
    }
    let bounds = window("day", "UTC").bounds_at(at("2026-11-27T12:00:00Z"));
    assert_eq!(bounds.find_span(at("2026-11-30T12:00:00Z"), None), None);
}

#[test]
fn a_counted_window_begins_with_its_first_reservation() {
    let bounds = window("5h", "UTC").bounds_at(7);
    let hours = |hours: u64| hours * 3_600_000;
    let first = bounds.find_span(hours(1), None).unwrap();
    assert_eq!(first, TimeSpan { start: hours(1), end: hours(6) });
    assert_eq!(bounds.find_span(hours(6) - 1, Some(first)), Some(first));
    assert_eq!(bounds.find_span(0, Some(first)), Some(first), "the clock was put back");
    let next = bounds.find_span(hours(9), Some(first));
    assert_eq!(next, Some(TimeSpan { start: hours(9), end: hours(14) }));
}

#[test]
fn accounts_of_windows_are_told_apart_whatever_their_names_look_like() {
    let (day, hours) = (window("day", "UTC"), window("5h", "UTC"));
    let span = TimeSpan { start: 12, end: 15 };
    let mut seen = std::collections::HashSet::new();
    for path in ["a", "a/b", "a@12", "a@12@12", "day:UTC:a", "UTC:a", "@"] {
        for window in [&day, &hours] {
            let account = budget_account(window, path);
            let name = window_account(&account, span);
            assert_eq!(account_of_window(&name), &*account);
            assert!(seen.insert(name), "{path}");
        }
    }
    assert_eq!(account_of_window("run:x@12"), "run:x@12");
}
