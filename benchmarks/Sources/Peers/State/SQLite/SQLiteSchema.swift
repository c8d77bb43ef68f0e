/// The tables. A conversation has a short key, and a message's rowid is made of that and its seq, so that a timeline page is one run of
/// the table itself: no index stands between. Authors are in the rows, so that a page joins nothing. `ordered` stands first,
/// so that a lobby's sorting reads little of each conversation.
enum SQLiteSchema {
    static let events = """
        CREATE TABLE IF NOT EXISTS events (
            position INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
            kind INTEGER NOT NULL, author TEXT NOT NULL, message BLOB, number INTEGER, reply BLOB, text TEXT, rest BLOB);
        CREATE UNIQUE INDEX IF NOT EXISTS conversation_events ON events (conversation, seq) WHERE kind <> 14;
        CREATE UNIQUE INDEX IF NOT EXISTS own_events ON events (author, seq) WHERE kind = 14;
        """

    static let state = """
        CREATE TABLE IF NOT EXISTS conversations (
            key INTEGER PRIMARY KEY, ordered INTEGER NOT NULL, id BLOB NOT NULL, kind INTEGER NOT NULL, title TEXT, title_time INTEGER,
            title_position INTEGER, seq INTEGER NOT NULL, messages INTEGER NOT NULL, deleted INTEGER NOT NULL, has_receipts INTEGER NOT NULL,
            last_id BLOB, last_seq INTEGER, last_author TEXT, last_role INTEGER, last_state INTEGER, last_sent_at INTEGER, last_snippet TEXT);
        CREATE TABLE IF NOT EXISTS messages (
            key INTEGER PRIMARY KEY, id BLOB NOT NULL, ordinal INTEGER NOT NULL, author TEXT NOT NULL, role INTEGER NOT NULL,
            state INTEGER NOT NULL, is_edited INTEGER NOT NULL, chunks INTEGER NOT NULL, reply_to BLOB, sent_at INTEGER NOT NULL,
            finish_reason TEXT, interrupted_reason TEXT, has_reactions INTEGER NOT NULL, text_time INTEGER, text_position INTEGER, text TEXT NOT NULL);
        CREATE TABLE IF NOT EXISTS members (
            user TEXT NOT NULL, conversation INTEGER NOT NULL, is_active INTEGER NOT NULL, mark INTEGER NOT NULL, ordinal INTEGER NOT NULL,
            PRIMARY KEY (user, conversation)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS receipts (
            conversation INTEGER NOT NULL, user TEXT NOT NULL, delivered INTEGER NOT NULL, read INTEGER NOT NULL,
            PRIMARY KEY (conversation, user)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS reactions (
            message INTEGER NOT NULL, emoji TEXT NOT NULL, user TEXT NOT NULL, is_on INTEGER NOT NULL, time INTEGER NOT NULL,
            position INTEGER NOT NULL, PRIMARY KEY (message, emoji, user)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS preferences (
            user TEXT NOT NULL, conversation INTEGER NOT NULL, key TEXT NOT NULL, value TEXT, time INTEGER NOT NULL, position INTEGER NOT NULL,
            PRIMARY KEY (user, conversation, key)) WITHOUT ROWID;
        """

    static let indexes = """
        CREATE UNIQUE INDEX IF NOT EXISTS conversation_ids ON conversations (id);
        CREATE UNIQUE INDEX IF NOT EXISTS message_ids ON messages (key >> 32, id);
        CREATE INDEX IF NOT EXISTS deleted_messages ON messages (key) WHERE state = 3;
        CREATE INDEX IF NOT EXISTS participants ON members (conversation) WHERE is_active;
        """

    static let tables = ["conversations", "messages", "members", "receipts", "reactions", "preferences"]
}
