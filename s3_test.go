package tierd_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd"
	"github.com/tierd/tierd/internal/servicestest"
	"github.com/tierd/tierd/tiering"
)

// bucketURL returns the URL of a test server's bucket under a prefix of this
// test's own.
func bucketURL(t *testing.T, variable string) string {
	t.Helper()
	u, err := url.Parse(servicestest.Variable(t, variable))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = fmt.Sprintf("/node-%d/%s", time.Now().UnixNano(), strings.ToLower(t.Name()))
	return u.String()
}

// A node with both cold copies in S3, by either driver: state is archived to
// two buckets, demoted behind them, and comes back when it is read.
func TestNodeOverTwoS3Buckets(t *testing.T) {
	for _, driver := range []string{"aws", "minio"} {
		t.Run(driver, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := tierd.Config{Cold: bucketURL(t, "TIERD_COLD") + "&client=" + driver, Backup: bucketURL(t, "TIERD_BACKUP")}
			n := open(t, c)
			for v := range 3 {
				if _, err := n.Put(ctx, "prefs", "ada", fmt.Appendf(nil, `{"v":%d}`, v), nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := n.Demote(ctx, "prefs", "ada"); err != nil {
				t.Fatal(err)
			}
			d, err := n.Get(ctx, "prefs", "ada", nil)
			if err != nil || string(d.Body) != `{"v":2}` || d.Tier != tiering.Cold {
				t.Fatalf("%+v, %v", d, err)
			}
			x, err := n.Explain(ctx, "prefs", "ada")
			if err != nil || x.Copies[len(x.Copies)-1].State != string(tiering.CopyVerified) {
				t.Fatalf("%+v, %v", x, err)
			}
		})
	}
}
