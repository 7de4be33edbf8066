package sqlite

import (
	"testing"

	"github.com/tierd/tierd/tiering"
)

// TestDamagedBodies: bytes that rotted in the file never come back as if they
// were right, whatever their coding, and are mended with the right ones.
func TestDamagedBodies(t *testing.T) {
	for name, body := range map[string][]byte{
		"stored as it is": []byte(`{"a":1}`),
		"compressed":      []byte(`"` + longText() + `"`),
	} {
		t.Run(name, func(t *testing.T) {
			s := fresh(t)
			k := noteKey("k")
			if _, err := commitRow(s, k, putRow(body)); err != nil {
				t.Fatal(err)
			}
			if err := s.write(t.Context(), func(tx *txn) error {
				_, err := tx.exec(`UPDATE version SET body = substr(body, 1, 5) || X'a5a5' || substr(body, 8)`)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			cur, err := s.Load(t.Context(), k)
			if err != nil || tiering.DigestOf(cur.Body) == cur.Head.Digest {
				t.Fatalf("Load: %q, %v", cur.Body, err)
			}
			v, ok, err := s.Version(t.Context(), k, 1)
			if err != nil || !ok || tiering.DigestOf(v.Body) == v.Digest {
				t.Fatalf("Version: %q, %v, %v", v.Body, ok, err)
			}
			for _, c := range []struct {
				body []byte
				want bool
			}{{[]byte(string(body) + ` `), false}, {body, true}} {
				if done, err := s.Mend(t.Context(), k, 1, c.body); done != c.want || err != nil {
					t.Fatalf("Mend with %d bytes: %v, %v", len(c.body), done, err)
				}
			}
			if cur, err = s.Load(t.Context(), k); err != nil || string(cur.Body) != string(body) {
				t.Fatalf("mended, it is %q, %v", cur.Body, err)
			}
		})
	}
}

// longText is long enough to be compressed, and worth it.
func longText() string {
	b := make([]byte, 5000)
	for i := range b {
		b[i] = 'a' + byte(i/700)
	}
	return string(b)
}
