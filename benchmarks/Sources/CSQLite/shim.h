#include <sqlite3.h>

// SQLITE_STATIC: the bytes live until the statement has run. (The macro is a cast, which Swift does not import.)
static inline int bind_static_text(sqlite3_stmt *statement, int column, const char *bytes, int count) {
    return sqlite3_bind_text(statement, column, bytes, count, SQLITE_STATIC);
}

static inline int bind_static_blob(sqlite3_stmt *statement, int column, const void *bytes, int count) {
    return sqlite3_bind_blob(statement, column, bytes, count, SQLITE_STATIC);
}

// SQLITE_TRANSIENT: SQLite copies the bytes.
static inline int bind_copied_text(sqlite3_stmt *statement, int column, const char *bytes, int count) {
    return sqlite3_bind_text(statement, column, bytes, count, SQLITE_TRANSIENT);
}

static inline int bind_copied_blob(sqlite3_stmt *statement, int column, const void *bytes, int count) {
    return sqlite3_bind_blob(statement, column, bytes, count, SQLITE_TRANSIENT);
}
