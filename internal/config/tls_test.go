package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a self-signed pair that is good until the given time.
func certificate(t *testing.T, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))),
		write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})))
}

func TestCertificates(t *testing.T) {
	now := time.Now()
	cert, key := certificate(t, now.Add(time.Hour))
	expired, expiredKey := certificate(t, now.Add(-time.Hour))
	for _, c := range []struct {
		name, cert, key string
		want            string // part of the one fault, "" for none
		warning         bool
	}{
		{"a good pair", cert, key, "", false},
		{"another certificate's key", cert, expiredKey, "--tls-cert: does not go together with tls_key", false},
		{"the two files swapped", key, cert, "does not go together with tls_key", false},
		{"a key that is not there", cert, filepath.Join(t.TempDir(), "key.pem"), "--tls-key: cannot be read", false},
		{"a certificate that has expired", expired, expiredKey, "expired on", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := load(t, Sources{Flags: map[string]string{"data": t.TempDir(), "tls_cert": c.cert, "tls_key": c.key}})
			faults := l.Check(now)
			switch {
			case c.want == "" && len(faults) > 0:
				t.Errorf("faults %v", faults)
			case c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].String(), c.want) || faults[0].Warning != c.warning):
				t.Errorf("faults %+v, want one with %q, warning %v", faults, c.want, c.warning)
			}
		})
	}
}
