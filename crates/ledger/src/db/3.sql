-- Lines of a run that are written together share rows of `events`: their event is 'lines', their time
-- and turn the first line's, and their fields [[seq, at, turn, event, fields], …]. Signals do not,
-- for they are looked for by name. This has each line by itself.
CREATE VIEW lines AS
    SELECT run_id, seq AS row, seq, at, turn, event, fields FROM events WHERE event <> 'lines'
    UNION ALL
    SELECT run_id, seq, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value -> 4
    FROM events, json_each(events.fields) WHERE event = 'lines';
