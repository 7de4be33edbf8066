package openai

import (
	"strconv"
	"time"

	"github.com/tierd/tierd/internal/endpoint"
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

// Parse reads the URL of an embedder:
//
//	openai+https://HOST/v1?model=NAME&query_prefix=query:%20&dimensions=512
//
// and openai+http. The parameters are the options by their names in snake_case.
// The API key is never among them: it is what the environment variable
// TIERD_EMBED_API_KEY holds, or the one that api_key_env names, or for
// api.openai.com OPENAI_API_KEY. Errors are invalid, and quote no value.
func Parse(text string) (Options, error) {
	place, given, err := endpoint.Form{What: "an embedder", KeyVariable: defaultKeyVariable, Parameters: []string{
		"version", "dimensions", "document_prefix", "query_prefix", "max_batch", "max_input", "timeout", "weight",
	}}.Parse(text)
	if err != nil {
		return Options{}, err
	}
	o := Options{
		Base: place.Base, Model: place.Model, APIKey: place.APIKey, Version: given.Text("version"),
		DocumentPrefix: given.Text("document_prefix"), QueryPrefix: given.Text("query_prefix"),
	}
	for name, field := range map[string]*int{"dimensions": &o.Dimensions, "max_batch": &o.MaxBatch, "max_input": &o.MaxInput} {
		if err := given.Number(name, field); err != nil {
			return Options{}, err
		}
	}
	if err := given.Duration("timeout", &o.Timeout); err != nil {
		return Options{}, err
	}
	if weight := given.Text("weight"); weight != "" {
		if o.Weight, err = strconv.ParseFloat(weight, 64); err != nil || !(o.Weight > 0 && o.Weight <= 1) {
			return Options{}, tiering.Invalidf("weight of an embedder is above 0 and at most 1")
		}
	}
	return o, nil
}
