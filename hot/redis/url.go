package redis

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dial makes the client that url asks for. It connects when it is used.
func (s *Store) dial(raw string) error {
	a, err := parseAddress(raw)
	if err != nil {
		return err
	}
	switch a.kind {
	case "sentinel":
		o, err := goredis.ParseFailoverURL(a.url)
		if err != nil {
			return withoutURL(err)
		}
		o.Username, o.Password = a.username, a.password
		s.tuneSentinel(o)
		s.client = goredis.NewFailoverClient(o)
	case "cluster":
		o, err := goredis.ParseClusterURL(a.url)
		if err != nil {
			return withoutURL(err)
		}
		s.clustered = true
		s.tuneCluster(o)
		s.cluster = goredis.NewClusterClient(o)
		s.client = s.cluster
	default:
		o, err := goredis.ParseURL(a.url)
		if err != nil {
			return withoutURL(err)
		}
		s.tuneServer(o)
		s.client = goredis.NewClient(o)
	}
	return nil
}

// Connections of the pool, and how long an idle one is kept. Pipelines share
// connections, so a few carry everything; scans and pings take others.
const (
	poolSize = 16
	keepIdle = 5 * time.Minute
)

// Nothing is sent twice behind our back: MaxRetries is -1, for 0 means three
// tries. A context's deadline is the connection's too. The three kinds of
// options have no type in common.

func (s *Store) tuneServer(o *goredis.Options) {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = s.Timeout, s.Timeout, s.Timeout, s.Timeout
	o.PoolSize, o.PipelinePoolSize, o.ConnMaxIdleTime = poolSize, -1, keepIdle
	o.DisableIdentity, o.MaintNotificationsConfig = true, noMaintenance()
	o.OnConnect = s.onConnect()
}

func (s *Store) tuneSentinel(o *goredis.FailoverOptions) {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = s.Timeout, s.Timeout, s.Timeout, s.Timeout
	o.PoolSize, o.PipelinePoolSize, o.ConnMaxIdleTime = poolSize, -1, keepIdle
	o.DisableIdentity = true
	o.OnConnect = s.onConnect()
}

func (s *Store) tuneCluster(o *goredis.ClusterOptions) {
	o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = -1, 1, true
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = s.Timeout, s.Timeout, s.Timeout, s.Timeout
	o.PoolSize, o.PipelinePoolSize, o.ConnMaxIdleTime = poolSize, -1, keepIdle
	o.DisableIdentity, o.MaintNotificationsConfig = true, noMaintenance()
	o.OnConnect = s.onConnect()
	// A redirection is not a repetition: the command was not carried out.
	o.MaxRedirects = 3
}

func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// address is a hot URL taken apart: what go-redis parses, and the rest.
type address struct {
	kind               string // "", "sentinel" or "cluster"
	url                string
	username, password string // of the servers behind sentinels
}

// parseAddress turns a URL of several hosts into go-redis' form of it, where
// every host but the first is an option of the query. Errors do not repeat the
// URL: it may hold a password.
func parseAddress(raw string) (address, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	security, kind, _ := strings.Cut(scheme, "+")
	if !ok {
		return address{}, errors.New("redis: a hot URL looks like redis://host:6379/0")
	}
	if security != "redis" && security != "rediss" || kind != "" && kind != "sentinel" && kind != "cluster" {
		return address{}, fmt.Errorf("redis: scheme %q is none of redis, rediss, redis+sentinel, redis+cluster", scheme)
	}
	if kind == "" {
		return address{url: raw}, nil
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i+1], authority[i+1:]
	}
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return address{}, errors.New("redis: the query of the URL cannot be parsed")
	}
	first, others, _ := strings.Cut(hosts, ",")
	for host := range strings.SplitSeq(others, ",") {
		if host != "" {
			query.Add("addr", host)
		}
	}
	a := address{kind: kind}
	if first == "" {
		return a, errors.New("redis: the URL names no host")
	}
	if kind == "cluster" {
		if path != "" && path != "0" {
			return a, errors.New("redis: a cluster has database 0 only")
		}
		a.url = security + "://" + user + first + "?" + query.Encode()
		return a, nil
	}

	master, database, _ := strings.Cut(path, "/")
	if master == "" {
		return a, errors.New("redis: the URL names no master: redis+sentinel://host1,host2/master")
	}
	query.Set("master_name", master)
	if a.username, a.password, err = credentials(user); err != nil {
		return a, err
	}
	sentinel := url.URL{Scheme: security, Host: first, Path: "/" + database}
	if name, password := query.Get("sentinel_username"), query.Get("sentinel_password"); password != "" {
		sentinel.User = url.UserPassword(name, password)
	}
	query.Del("sentinel_username")
	query.Del("sentinel_password")
	sentinel.RawQuery = query.Encode()
	a.url = sentinel.String()
	return a, nil
}

// credentials reads "user:password@", "" for none.
func credentials(user string) (name, password string, err error) {
	name, password, _ = strings.Cut(strings.TrimSuffix(user, "@"), ":")
	if name, err = url.PathUnescape(name); err == nil {
		password, err = url.PathUnescape(password)
	}
	if err != nil {
		return "", "", errors.New("redis: user or password of the URL are not escaped well")
	}
	return name, password, nil
}

// withoutURL takes the URL, which may hold a password, out of an error.
func withoutURL(err error) error {
	if _, tells := errors.AsType[*url.Error](err); tells {
		return errors.New("redis: the URL cannot be parsed")
	}
	return err
}
