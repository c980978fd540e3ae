-- Version 4: responses know their conversation, with which they are deleted.

ALTER TABLE softland_links ADD scope text;
DROP FUNCTION IF EXISTS softland_store_shown(jsonb);
