-- The tables of an OpenCode database, for a home without one. Later versions of OpenCode change
-- them by the migrations that the table `migration` does not name.
CREATE TABLE account (id TEXT PRIMARY KEY, email TEXT NOT NULL, url TEXT NOT NULL, access_token
    TEXT NOT NULL, refresh_token TEXT NOT NULL, token_expiry INTEGER, time_created INTEGER NOT
    NULL, time_updated INTEGER NOT NULL);
CREATE TABLE account_state (id INTEGER PRIMARY KEY, active_account_id TEXT, active_org_id TEXT,
    FOREIGN KEY (active_account_id) REFERENCES account(id) ON DELETE SET NULL);
CREATE TABLE control_account (email TEXT NOT NULL, url TEXT NOT NULL, access_token TEXT NOT NULL,
    refresh_token TEXT NOT NULL, token_expiry INTEGER, active INTEGER NOT NULL, time_created
    INTEGER NOT NULL, time_updated INTEGER NOT NULL, PRIMARY KEY(email, url));
CREATE TABLE credential (id TEXT PRIMARY KEY, integration_id TEXT, label TEXT NOT NULL, value TEXT
    NOT NULL, connector_id TEXT, method_id TEXT, active INTEGER, time_created INTEGER NOT NULL,
    time_updated INTEGER NOT NULL);
CREATE TABLE data_migration (name TEXT PRIMARY KEY, time_completed INTEGER NOT NULL);
CREATE TABLE event (id TEXT PRIMARY KEY, aggregate_id TEXT NOT NULL, seq INTEGER NOT NULL, type
    TEXT NOT NULL, data TEXT NOT NULL, FOREIGN KEY (aggregate_id) REFERENCES
    event_sequence(aggregate_id) ON DELETE CASCADE);
CREATE TABLE event_sequence (aggregate_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, owner_id TEXT);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, time_created INTEGER NOT
    NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL, FOREIGN KEY (session_id) REFERENCES
    session(id) ON DELETE CASCADE);
CREATE TABLE migration (id TEXT PRIMARY KEY, time_completed INTEGER NOT NULL);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT NOT NULL, session_id TEXT NOT NULL,
    time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT NOT NULL, FOREIGN KEY
    (message_id) REFERENCES message(id) ON DELETE CASCADE);
CREATE TABLE permission (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, action TEXT NOT NULL,
    resource TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, FOREIGN
    KEY (project_id) REFERENCES project(id) ON DELETE CASCADE);
CREATE TABLE project (id TEXT PRIMARY KEY, worktree TEXT NOT NULL, vcs TEXT, name TEXT, icon_url
    TEXT, icon_url_override TEXT, icon_color TEXT, time_created INTEGER NOT NULL, time_updated
    INTEGER NOT NULL, time_initialized INTEGER, sandboxes TEXT NOT NULL, commands TEXT);
CREATE TABLE project_directory (project_id TEXT NOT NULL, directory TEXT NOT NULL, type TEXT,
    strategy TEXT, time_created INTEGER NOT NULL, PRIMARY KEY(project_id, directory), FOREIGN KEY
    (project_id) REFERENCES project(id) ON DELETE CASCADE);
CREATE TABLE session (id TEXT PRIMARY KEY, project_id TEXT NOT NULL, workspace_id TEXT, parent_id
    TEXT, slug TEXT NOT NULL, directory TEXT NOT NULL, path TEXT, title TEXT NOT NULL, version
    TEXT NOT NULL, share_url TEXT, summary_additions INTEGER, summary_deletions INTEGER,
    summary_files INTEGER, summary_diffs TEXT, metadata TEXT, cost REAL DEFAULT 0 NOT NULL,
    tokens_input INTEGER DEFAULT 0 NOT NULL, tokens_output INTEGER DEFAULT 0 NOT NULL,
    tokens_reasoning INTEGER DEFAULT 0 NOT NULL, tokens_cache_read INTEGER DEFAULT 0 NOT NULL,
    tokens_cache_write INTEGER DEFAULT 0 NOT NULL, revert TEXT, permission TEXT, agent TEXT, model
    TEXT, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, time_compacting INTEGER,
    time_archived INTEGER, FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE);
CREATE TABLE session_context_epoch (session_id TEXT PRIMARY KEY, baseline TEXT NOT NULL, snapshot
    TEXT NOT NULL, baseline_seq INTEGER NOT NULL, FOREIGN KEY (session_id) REFERENCES session(id)
    ON DELETE CASCADE);
CREATE TABLE session_input (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, prompt TEXT NOT NULL,
    delivery TEXT NOT NULL, admitted_seq INTEGER NOT NULL, promoted_seq INTEGER, time_created
    INTEGER NOT NULL, FOREIGN KEY (session_id) REFERENCES session(id) ON DELETE CASCADE);
CREATE TABLE session_message (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, type TEXT NOT NULL,
    seq INTEGER NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, data TEXT
    NOT NULL, FOREIGN KEY (session_id) REFERENCES session(id) ON DELETE CASCADE);
CREATE TABLE session_share (session_id TEXT PRIMARY KEY, id TEXT NOT NULL, secret TEXT NOT NULL,
    url TEXT NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER NOT NULL, FOREIGN KEY
    (session_id) REFERENCES session(id) ON DELETE CASCADE);
CREATE TABLE todo (session_id TEXT NOT NULL, content TEXT NOT NULL, status TEXT NOT NULL, priority
    TEXT NOT NULL, position INTEGER NOT NULL, time_created INTEGER NOT NULL, time_updated INTEGER
    NOT NULL, PRIMARY KEY(session_id, position), FOREIGN KEY (session_id) REFERENCES session(id)
    ON DELETE CASCADE);
CREATE TABLE workspace (id TEXT PRIMARY KEY, type TEXT NOT NULL, name TEXT DEFAULT '' NOT NULL,
    branch TEXT, directory TEXT, extra TEXT, project_id TEXT NOT NULL, time_used INTEGER NOT NULL,
    FOREIGN KEY (project_id) REFERENCES project(id) ON DELETE CASCADE);
CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id,seq);
CREATE INDEX event_aggregate_type_seq_idx ON event (aggregate_id,type,seq);
CREATE INDEX message_session_time_created_id_idx ON message (session_id,time_created,id);
CREATE INDEX part_message_id_id_idx ON part (message_id,id);
CREATE INDEX part_session_idx ON part (session_id);
CREATE UNIQUE INDEX permission_project_action_resource_idx ON permission
    (project_id,action,resource);
CREATE UNIQUE INDEX session_input_session_admitted_seq_idx ON session_input
    (session_id,admitted_seq);
CREATE INDEX session_input_session_pending_delivery_seq_idx ON session_input
    (session_id,promoted_seq,delivery,admitted_seq);
CREATE UNIQUE INDEX session_input_session_promoted_seq_idx ON session_input
    (session_id,promoted_seq);
CREATE UNIQUE INDEX session_message_session_seq_idx ON session_message (session_id,seq);
CREATE INDEX session_message_session_time_created_id_idx ON session_message
    (session_id,time_created,id);
CREATE INDEX session_message_session_type_seq_idx ON session_message (session_id,type,seq);
CREATE INDEX session_message_time_created_idx ON session_message (time_created);
CREATE INDEX session_parent_idx ON session (parent_id);
CREATE INDEX session_project_idx ON session (project_id);
CREATE INDEX session_workspace_idx ON session (workspace_id);
CREATE INDEX todo_session_idx ON todo (session_id);
INSERT INTO migration (id, time_completed) VALUES
    ('20260127222353_familiar_lady_ursula', 0),
    ('20260211171708_add_project_commands', 0),
    ('20260213144116_wakeful_the_professor', 0),
    ('20260225215848_workspace', 0),
    ('20260227213759_add_session_workspace_id', 0),
    ('20260228203230_blue_harpoon', 0),
    ('20260303231226_add_workspace_fields', 0),
    ('20260309230000_move_org_to_state', 0),
    ('20260312043431_session_message_cursor', 0),
    ('20260323234822_events', 0),
    ('20260410174513_workspace-name', 0),
    ('20260413175956_chief_energizer', 0),
    ('20260423070820_add_icon_url_override', 0),
    ('20260427172553_slow_nightmare', 0),
    ('20260428004200_add_session_path', 0),
    ('20260501142318_next_venus', 0),
    ('20260504145000_add_sync_owner', 0),
    ('20260507164347_add_workspace_time', 0),
    ('20260510033149_session_usage', 0),
    ('20260511000411_data_migration_state', 0),
    ('20260511173437_session-metadata', 0),
    ('20260601010001_normalize_storage_paths', 0),
    ('20260601202201_amazing_prowler', 0),
    ('20260602002951_lowly_union_jack', 0),
    ('20260602182828_add_project_directories', 0),
    ('20260603001617_session_message_projection_indexes', 0),
    ('20260603040000_session_message_projection_order', 0),
    ('20260603141458_session_input_inbox', 0),
    ('20260603160727_jittery_ezekiel_stane', 0),
    ('20260604172448_event_sourced_session_input', 0),
    ('20260605003541_add_session_context_snapshot', 0),
    ('20260605042240_add_context_epoch_agent', 0),
    ('20260611035744_credential', 0),
    ('20260611192811_lush_chimera', 0),
    ('20260612174303_project_dir_strategy', 0),
    ('20260622142730_simplify_session_context_epoch', 0),
    ('20260622170816_reset_v2_session_state', 0),
    ('20260622202450_simplify_session_input', 0);
