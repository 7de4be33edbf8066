package s3url

import (
	"errors"
	"strings"
	"testing"

	"github.com/tierd/tierd/tiering"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, url string
		want      Place
	}{
		{"a bucket of AWS", "s3://state", Place{Bucket: "state", Client: "aws"}},
		{"a slash is no prefix", "s3://state/", Place{Bucket: "state", Client: "aws"}},
		{"a prefix", "s3://state/prod/eu", Place{Bucket: "state", Prefix: "prod/eu", Client: "aws"}},
		{"a prefix with a slash behind it", "s3://state/prod/", Place{Bucket: "state", Prefix: "prod", Client: "aws"}},
		{
			"everything", "s3://state/p?endpoint=http://127.0.0.1:9000&path_style=true&region=us-east-1&profile=backup&client=minio",
			Place{"state", "p", "http://127.0.0.1:9000", true, "us-east-1", "backup", "minio"},
		},
		{
			"an endpoint means path style", "s3://state?endpoint=https://s3.example.org/",
			Place{Bucket: "state", Endpoint: "https://s3.example.org", PathStyle: true, Client: "aws"},
		},
		{
			"unless told otherwise", "s3://state?endpoint=https://s3.example.org&path_style=false&client=aws",
			Place{Bucket: "state", Endpoint: "https://s3.example.org", Client: "aws"},
		},
		{"path style of AWS", "s3://my.bucket?path_style=1", Place{Bucket: "my.bucket", PathStyle: true, Client: "aws"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.url)
			if err != nil || got != c.want {
				t.Fatalf("%+v, %v, want %+v", got, err, c.want)
			}
			again, err := Parse(got.String())
			if err != nil || again != got {
				t.Fatalf("%s reads as %+v, %v", got, again, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, url, says string }{
		{"another scheme", "gs://state", "no s3://"},
		{"no slashes", "s3:state", "no s3://"},
		{"no bucket", "s3:///prefix", "bucket"},
		{"capitals in the bucket", "s3://State", "bucket"},
		{"an address as bucket", "s3://127.0.0.1", "bucket"},
		{"a server as bucket", "s3://127.0.0.1:9000/state", "endpoint="},
		{"credentials", "s3://key:hunter2@state", "credentials do not belong"},
		{"a secret as parameter", "s3://state?secret_key=hunter2", "not known"},
		{"a misspelt parameter", "s3://state?endpont=http://h", "not known"},
		{"a parameter twice", "s3://state?region=a&region=b", "one value"},
		{"an empty parameter", "s3://state?region=", "one value"},
		{"a dot segment", "s3://state/a/../b", "prefix"},
		{"an empty segment", "s3://state/a//b", "prefix"},
		{"a space", "s3://state/a%20b", "prefix"},
		{"a long prefix", "s3://state/" + strings.Repeat("a/", 101), "at most 200"},
		{"an endpoint without a scheme", "s3://state?endpoint=127.0.0.1:9000", "endpoint must"},
		{"an endpoint of another scheme", "s3://state?endpoint=ftp://h", "endpoint must"},
		{"an endpoint with credentials", "s3://state?endpoint=http://u:hunter2@h", "endpoint must"},
		{"an endpoint with a path", "s3://state?endpoint=http://h/minio", "endpoint must"},
		{"a style that is no boolean", "s3://state?path_style=yes", "true or false"},
		{"another client", "s3://state?client=boto", "not known"},
		{"a region with a slash", "s3://state?region=a/b", "region"},
		{"a fragment", "s3://state#x", "fragment"},
		{"broken parameters", "s3://state?a=%zz", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.url)
			if !errors.Is(err, tiering.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want invalid with %q", err, c.says)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("the error quotes a secret: %v", err)
			}
		})
	}
}

// FuzzParse: what is read is written and read again the same.
func FuzzParse(f *testing.F) {
	f.Add("s3://state/p?endpoint=http://127.0.0.1:9000&path_style=false&region=r&profile=b&client=minio")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(p.String()); err != nil || again != p {
			t.Fatalf("%+v is written as %s and read as %+v, %v", p, p, again, err)
		}
	})
}
