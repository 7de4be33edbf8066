package openai

import (
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Options configure an Embedder.
type Options struct {
	// Base is the URL before /embeddings, such as http://127.0.0.1:11434/v1.
	Base string
	// Model is sent with every request.
	Model string
	// Version tells apart what the server calls by one name: another build of a
	// model, or another model behind an alias. It is not sent.
	Version string
	// APIKey is sent as a bearer token; empty sends none.
	APIKey string
	// Dimensions is sent, and the answer held to it, unless it is 0: then the
	// first answer says how many there are.
	Dimensions int
	// DocumentPrefix and QueryPrefix are put before texts, as the model was
	// trained with: "search_document: ", "query: ".
	DocumentPrefix, QueryPrefix string
	// MaxBatch is the most texts of one request; 0 means 32, which every server
	// takes.
	MaxBatch int
	// MaxInput is the longest text, in bytes, prefix included; what is longer is
	// cut. 0 leaves it to the server: a text that it refuses for its length is
	// halved until it is taken.
	MaxInput int
	// Timeout is for one request; 0 means 30 s.
	Timeout time.Duration
	// Weight is that of the fusion; 0 means 1.
	Weight float64
}

// defaultKeyVariable holds the API key unless the URL names another variable.
const defaultKeyVariable = "TIERD_EMBED_API_KEY"

// openAIHost alone is sent what openAIKeyVariable holds.
const (
	openAIHost        = "api.openai.com"
	openAIKeyVariable = "OPENAI_API_KEY"
)

var parameters = []string{
	"model", "version", "dimensions", "document_prefix", "query_prefix",
	"max_batch", "max_input", "timeout", "weight", "api_key_env",
}

// Parse reads the URL of an embedder:
//
//	openai+https://HOST/v1?model=NAME&query_prefix=query:%20&dimensions=512
//
// and openai+http. The parameters are the options by their names in snake_case.
// The API key is never among them: it is what the environment variable
// TIERD_EMBED_API_KEY holds, or the one that api_key_env names, or for
// api.openai.com OPENAI_API_KEY. Errors are invalid, and quote no value.
func Parse(text string) (Options, error) {
	rest, ok := strings.CutPrefix(text, "openai+")
	u, err := url.Parse(rest)
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Options{}, tiering.Invalidf("the embedder is no openai+https://HOST/v1?model=NAME URL")
	}
	if u.User != nil || u.Fragment != "" {
		return Options{}, tiering.Invalidf("credentials and fragments do not belong into the URL of an embedder: the API key is read from %s", defaultKeyVariable)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Options{}, tiering.Invalidf("the parameters of the embedder's URL cannot be read")
	}
	for name, values := range query {
		if !slices.Contains(parameters, name) {
			return Options{}, tiering.Invalidf("the parameter %q of an embedder is not known: there are %s", name, strings.Join(parameters, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return Options{}, tiering.Invalidf("the parameter %s of an embedder needs one value", name)
		}
	}
	o := Options{
		Model: query.Get("model"), Version: query.Get("version"),
		DocumentPrefix: query.Get("document_prefix"), QueryPrefix: query.Get("query_prefix"),
		APIKey: apiKey(u.Hostname(), query.Get("api_key_env")),
	}
	for name, field := range map[string]*int{"dimensions": &o.Dimensions, "max_batch": &o.MaxBatch, "max_input": &o.MaxInput} {
		if !query.Has(name) {
			continue
		}
		if *field, err = strconv.Atoi(query.Get(name)); err != nil || *field < 1 {
			return Options{}, tiering.Invalidf("%s of an embedder is a number above 0", name)
		}
	}
	if query.Has("timeout") {
		if o.Timeout, err = time.ParseDuration(query.Get("timeout")); err != nil || o.Timeout <= 0 {
			return Options{}, tiering.Invalidf("timeout of an embedder is a duration such as 30s")
		}
	}
	if query.Has("weight") {
		if o.Weight, err = strconv.ParseFloat(query.Get("weight"), 64); err != nil || !(o.Weight > 0 && o.Weight <= 1) {
			return Options{}, tiering.Invalidf("weight of an embedder is above 0 and at most 1")
		}
	}
	u.RawQuery = ""
	o.Base = u.String()
	return o, nil
}

// apiKey reads the key from the environment.
func apiKey(host, variable string) string {
	if variable != "" {
		return os.Getenv(variable)
	}
	if key := os.Getenv(defaultKeyVariable); key != "" {
		return key
	}
	if host == openAIHost {
		return os.Getenv(openAIKeyVariable)
	}
	return ""
}
