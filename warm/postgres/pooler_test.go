package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler that hands out a connection a transaction refuses settings of a
// session; what it says does not tell what to do.
func TestRefusedSettingsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		hint bool
	}{
		{"PgBouncer", &pgconn.PgError{Code: "08P01", Message: "unsupported startup parameter: statement_timeout"}, true},
		{"another breach of protocol", &pgconn.PgError{Code: "08P01", Message: "invalid message"}, false},
		{"another error", errors.New("startup parameter"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cause := fmt.Errorf("connect: %w", c.err)
			got := refusedSettings(cause)
			if strings.Contains(got.Error(), "cache_describe") != c.hint || !errors.Is(got, c.err) {
				t.Errorf("%v", got)
			}
		})
	}
}
