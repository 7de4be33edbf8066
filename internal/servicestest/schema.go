package servicestest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Schema makes an empty schema in the database that TIERD_WARM names, and
// returns its name and the URL that leads to it. It goes when the test ends.
func Schema(t testing.TB) (schemaURL, name string) {
	t.Helper()
	base := Variable(t, "TIERD_WARM")
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal("TIERD_WARM is not a URL")
	}
	name = "test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	SQL(t, base, `CREATE SCHEMA `+name)
	t.Cleanup(func() { SQL(t, base, `DROP SCHEMA `+name+` CASCADE`) })
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String(), name
}

// SQL runs statements on a connection of their own to the database that a URL
// names. It works in a cleanup too.
func SQL(t testing.TB, databaseURL, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, statements); err != nil {
		t.Fatal(err)
	}
}

// Number asks the database that a URL names for one number.
func Number(t testing.TB, databaseURL, query string) (n int64) {
	t.Helper()
	ask(t, databaseURL, query, &n)
	return n
}

// Text asks the database that a URL names for one text.
func Text(t testing.TB, databaseURL, query string) (text string) {
	t.Helper()
	ask(t, databaseURL, query, &text)
	return text
}

// ask reads one value. It works in a cleanup too.
func ask(t testing.TB, databaseURL, query string, value any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, query).Scan(value); err != nil {
		t.Fatal(err)
	}
}
