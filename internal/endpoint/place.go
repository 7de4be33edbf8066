package endpoint

import (
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tierd/tierd/tiering"
)

// Place is where a server is and what it is asked with.
type Place struct {
	// Base is the URL before the path, such as http://127.0.0.1:11434/v1.
	Base string
	// Model is sent with every request.
	Model string
	// APIKey is sent as a bearer token; empty sends none.
	APIKey string
	// KeyVariable is what errors say the key is set by.
	KeyVariable string
}

// openAIHost alone is sent what openAIKeyVariable holds.
const (
	openAIHost        = "api.openai.com"
	openAIKeyVariable = "OPENAI_API_KEY"
)

// Form is what the URL of one kind of server looks like.
type Form struct {
	// What is served there, as errors say it: "an embedder".
	What string
	// KeyVariable holds the API key unless the URL names another variable.
	KeyVariable string
	// Parameters are those that it has besides model and api_key_env.
	Parameters []string
}

// Parse reads openai+https://HOST/v1?model=NAME, or openai+http, and returns the
// other parameters. The API key is never among them: it is what the form's variable
// holds, or the one that api_key_env names, or for api.openai.com OPENAI_API_KEY.
// Errors are invalid, and quote no value.
func (f Form) Parse(text string) (Place, Values, error) {
	rest, ok := strings.CutPrefix(text, "openai+")
	u, err := url.Parse(rest)
	if !ok || err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Place{}, Values{}, tiering.Invalidf("the URL of %s is no openai+https://HOST/v1?model=NAME", f.What)
	}
	if u.User != nil || u.Fragment != "" {
		return Place{}, Values{}, tiering.Invalidf("credentials and fragments do not belong into the URL of %s: the API key is read from %s", f.What, f.KeyVariable)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Place{}, Values{}, tiering.Invalidf("the parameters of the URL of %s cannot be read", f.What)
	}
	known := append([]string{"model", "api_key_env"}, f.Parameters...)
	for name, values := range query {
		if !slices.Contains(known, name) {
			return Place{}, Values{}, tiering.Invalidf("the parameter %q of %s is not known: there are %s", name, f.What, strings.Join(known, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return Place{}, Values{}, tiering.Invalidf("the parameter %s of %s needs one value", name, f.What)
		}
	}
	u.RawQuery = ""
	p := Place{Base: u.String(), Model: query.Get("model"), APIKey: f.apiKey(u.Hostname(), query.Get("api_key_env")), KeyVariable: f.KeyVariable}
	if p.Model == "" {
		return Place{}, Values{}, tiering.Invalidf("%s needs a model: add ?model=NAME", f.What)
	}
	return p, Values{f.What, query}, nil
}

// apiKey reads the key from the environment.
func (f Form) apiKey(host, variable string) string {
	if variable != "" {
		return os.Getenv(variable)
	}
	if key := os.Getenv(f.KeyVariable); key != "" {
		return key
	}
	if host == openAIHost {
		return os.Getenv(openAIKeyVariable)
	}
	return ""
}

// Values are the parameters of a URL, each given once.
type Values struct {
	what  string
	query url.Values
}

// Text is a parameter, "" for one that was not given.
func (v Values) Text(name string) string { return v.query.Get(name) }

// Number reads a parameter into to, which stays as it is without one.
func (v Values) Number(name string, to *int) error {
	if !v.query.Has(name) {
		return nil
	}
	n, err := strconv.Atoi(v.query.Get(name))
	if err != nil || n < 1 {
		return tiering.Invalidf("%s of %s is a number above 0", name, v.what)
	}
	*to = n
	return nil
}

// Duration is Number for a duration.
func (v Values) Duration(name string, to *time.Duration) error {
	if !v.query.Has(name) {
		return nil
	}
	d, err := time.ParseDuration(v.query.Get(name))
	if err != nil || d <= 0 {
		return tiering.Invalidf("%s of %s is a duration such as 30s", name, v.what)
	}
	*to = d
	return nil
}
