// Package s3url reads the URLs that name a place in S3-compatible storage:
//
//	s3://BUCKET/PREFIX?endpoint=http://127.0.0.1:9000&path_style=true&region=us-east-1&profile=backup&client=minio
//
// Credentials are no part of it: they come from the environment, a profile or
// a file.
package s3url

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// The drivers that a URL can ask for.
const (
	ClientAWS   = "aws"   // aws-sdk-go-v2, the default
	ClientMinIO = "minio" // minio-go
)

// Place is where objects lie, and how to get there.
type Place struct {
	Bucket string
	// Prefix goes before every name with a slash between; it neither starts
	// nor ends with one. Empty is the whole bucket.
	Prefix string
	// Endpoint is the server, as http://host:port or https://host; empty is
	// AWS, in the region.
	Endpoint string
	// PathStyle puts the bucket in the path of a request and not in its host
	// name. Unless the URL says otherwise it is on where there is an endpoint.
	PathStyle bool
	// Region is empty unless the URL names one: then the environment does.
	Region string
	// Profile of the shared AWS files; empty is the environment's choice.
	Profile string
	// Client is the driver, ClientAWS or ClientMinIO.
	Client string
}

var parameters = []string{"endpoint", "path_style", "region", "profile", "client"}

// bucketName is what every server takes: the rules of AWS for new buckets.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// plain is what a prefix segment, a region or a profile is made of.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.=@-]+$`)

// Parse reads a URL. Its errors are invalid, and quote neither the URL nor a
// value that may hold a secret.
func Parse(text string) (Place, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Opaque != "" {
		return Place{}, tiering.Invalidf("this is no s3://BUCKET/PREFIX URL")
	}
	if u.User != nil {
		return Place{}, tiering.Invalidf("s3: credentials do not belong in the URL: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or profile=NAME")
	}
	if u.Fragment != "" {
		return Place{}, tiering.Invalidf("s3: the URL has a fragment: write %%23 for #")
	}
	p := Place{Bucket: u.Host, Client: ClientAWS}
	if u.Port() != "" {
		return Place{}, tiering.Invalidf("s3: what follows s3:// is the bucket: write the server as endpoint=http://HOST:PORT")
	}
	if err := checkBucket(p.Bucket); err != nil {
		return Place{}, err
	}
	if p.Prefix, err = readPrefix(u.Path); err != nil {
		return Place{}, err
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Place{}, tiering.Invalidf("s3: the parameters behind ? cannot be read")
	}
	return p.with(values)
}

func checkBucket(name string) error {
	if _, err := netip.ParseAddr(name); err == nil || !bucketName.MatchString(name) || strings.Contains(name, "..") {
		return tiering.Invalidf("s3: bucket %q: use 3 to 63 of a-z 0-9 . and -, with a letter or digit at both ends, and no IP address", name)
	}
	return nil
}

func readPrefix(path string) (string, error) {
	prefix := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if prefix == "" {
		return "", nil
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if !plain.MatchString(segment) || segment == "." || segment == ".." || len(segment) > 200 {
			return "", tiering.Invalidf("s3: prefix %q: segments between slashes are 1 to 200 of A-Z a-z 0-9 _ . = @ -, and no dot segments", prefix)
		}
	}
	// An S3 key has at most 1024 bytes, and names follow.
	if len(prefix) > 200 {
		return "", tiering.Invalidf("s3: the prefix is %d bytes long: use at most 200", len(prefix))
	}
	return prefix, nil
}

// with is p with what stands behind the question mark.
func (p Place) with(values url.Values) (Place, error) {
	for name, all := range values {
		if !slices.Contains(parameters, name) {
			return Place{}, tiering.Invalidf("s3: parameter %q is not known: use %s", name, strings.Join(parameters, ", "))
		}
		if len(all) != 1 || all[0] == "" {
			return Place{}, tiering.Invalidf("s3: parameter %s must have one value", name)
		}
	}
	var err error
	if p.Endpoint, err = readEndpoint(values.Get("endpoint")); err != nil {
		return Place{}, err
	}
	p.PathStyle = p.Endpoint != ""
	if style := values.Get("path_style"); style != "" {
		if p.PathStyle, err = strconv.ParseBool(style); err != nil {
			return Place{}, tiering.Invalidf("s3: path_style must be true or false")
		}
	}
	p.Region, p.Profile = values.Get("region"), values.Get("profile")
	for name, value := range map[string]string{"region": p.Region, "profile": p.Profile} {
		if value != "" && !plain.MatchString(value) {
			return Place{}, tiering.Invalidf("s3: %s holds a character that no %s has", name, name)
		}
	}
	switch client := values.Get("client"); client {
	case "":
	case ClientAWS, ClientMinIO:
		p.Client = client
	default:
		return Place{}, tiering.Invalidf("s3: client %q is not known: use %s or %s", client, ClientAWS, ClientMinIO)
	}
	return p, nil
}

func readEndpoint(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", tiering.Invalidf("s3: endpoint must be http://HOST:PORT or https://HOST, with nothing behind it")
	}
	return u.Scheme + "://" + u.Host, nil
}

// String is the URL again, in one spelling.
func (p Place) String() string {
	q := url.Values{}
	for name, value := range map[string]string{"endpoint": p.Endpoint, "region": p.Region, "profile": p.Profile} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if p.PathStyle != (p.Endpoint != "") {
		q.Set("path_style", strconv.FormatBool(p.PathStyle))
	}
	if p.Client != "" && p.Client != ClientAWS {
		q.Set("client", p.Client)
	}
	u := url.URL{Scheme: "s3", Host: p.Bucket, RawQuery: q.Encode()}
	if p.Prefix != "" {
		u.Path = "/" + p.Prefix
	}
	return u.String()
}
