package postgres

import (
	"strings"
	"testing"

	"github.com/tierd/tierd/internal/servicestest"
)

// TestWithoutPgvectorAStartSaysWhatToInstall: the migration looks for the
// extension among what the server has. The catalog's view is hidden by an empty
// one, as on a server without the package.
func TestWithoutPgvectorAStartSaysWhatToInstall(t *testing.T) {
	u, name := servicestest.Schema(t)
	servicestest.SQL(t, u, `CREATE VIEW pg_available_extensions AS SELECT 'other'::name AS name; CREATE VIEW pg_extension AS SELECT 'other'::name AS extname, '1.0'::text AS extversion, 0::oid AS extnamespace`)
	_, err := Open(t.Context(), strings.Replace(u, "search_path="+name, "search_path="+name+"%2Cpg_catalog", 1), nil)
	if err == nil || !strings.Contains(err.Error(), "install pgvector 0.8 or later") {
		t.Errorf("a start without pgvector says %v", err)
	}
}
