package s3test

import (
	"crypto/x509"
	"encoding/pem"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// fakePage is the most that the fake lists or deletes at once, as S3 does.
const fakePage = 1000

type listedObject struct {
	Key, LastModified, ETag string
	Size                    int
}

// serveList answers ListObjectsV2.
func (f *Fake) serveList(w http.ResponseWriter, q url.Values, bucket string) {
	out := struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Name        string
		KeyCount    int
		MaxKeys     int
		IsTruncated bool
		Contents    []listedObject

		NextContinuationToken string `xml:",omitempty"`
	}{Name: bucket, MaxKeys: fakePage}
	after := max(q.Get("start-after"), q.Get("continuation-token"))
	for _, key := range f.keys(bucket, q.Get("prefix")) {
		o := f.newest(bucket + "/" + key)
		if o == nil || key <= after {
			continue
		}
		if len(out.Contents) == fakePage {
			out.IsTruncated, out.NextContinuationToken = true, out.Contents[fakePage-1].Key
			break
		}
		out.Contents = append(out.Contents, listedObject{key, o.at.Format(time.RFC3339Nano), etag(o.data), len(o.data)})
	}
	out.KeyCount = len(out.Contents)
	writeXML(w, out)
}

func (f *Fake) keys(bucket, prefix string) []string {
	var keys []string
	for _, full := range slices.Sorted(maps.Keys(f.objects)) {
		if key, ok := strings.CutPrefix(full, bucket+"/"); ok && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys
}

// listedVersion is a Version or a DeleteMarker, by its XMLName.
type listedVersion struct {
	XMLName           xml.Name
	Key, LastModified string
	VersionID         string `xml:"VersionId"`
	IsLatest          bool
	Size              int
}

// serveVersions answers ListObjectVersions, newest version first.
func (f *Fake) serveVersions(w http.ResponseWriter, q url.Values, bucket string) {
	out := struct {
		XMLName     xml.Name `xml:"ListVersionsResult"`
		Name        string
		MaxKeys     int
		IsTruncated bool
		All         []listedVersion

		NextKeyMarker       string `xml:",omitempty"`
		NextVersionIDMarker string `xml:"NextVersionIdMarker,omitempty"`
	}{Name: bucket, MaxKeys: fakePage}
	for _, key := range f.keys(bucket, q.Get("prefix")) {
		all := f.objects[bucket+"/"+key]
		for i, o := range slices.Backward(all) {
			if len(out.All) == fakePage {
				last := out.All[fakePage-1]
				out.IsTruncated, out.NextKeyMarker, out.NextVersionIDMarker = true, last.Key, last.VersionID
				writeXML(w, out)
				return
			}
			name := "Version"
			if o.hidden {
				name = "DeleteMarker"
			}
			out.All = append(out.All, listedVersion{
				XMLName: xml.Name{Local: name}, Key: key, VersionID: o.version, LastModified: o.at.Format(time.RFC3339Nano),
				IsLatest: i == len(all)-1, Size: len(o.data),
			})
		}
	}
	writeXML(w, out)
}

// serveBatch answers DeleteObjects. It takes no more than S3 takes, and wants a
// digest of the list as S3 does.
func (f *Fake) serveBatch(w http.ResponseWriter, r *http.Request, bucket string, body []byte) {
	var in struct {
		Object []struct {
			Key       string
			VersionID string `xml:"VersionId"`
		}
	}
	digested := r.Header.Get("Content-Md5") != ""
	for name := range r.Header {
		digested = digested || strings.HasPrefix(name, "X-Amz-Checksum-")
	}
	if err := xml.Unmarshal(body, &in); err != nil || len(in.Object) > fakePage || !digested {
		refuse(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	for _, o := range in.Object {
		f.remove(bucket+"/"+o.Key, o.VersionID)
	}
	writeXML(w, struct {
		XMLName xml.Name `xml:"DeleteResult"`
	}{})
}

func writeXML(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(v)
}

func certificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
