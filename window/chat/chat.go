// Package chat summarises conversations with a server that speaks OpenAI's chat
// completions protocol, as Ollama, vLLM and OpenAI do
// (https://platform.openai.com/docs/api-reference/chat/create).
package chat

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tierd/tierd/internal/endpoint"
	"github.com/tierd/tierd/tiering"
	"github.com/tierd/tierd/window"
)

const (
	defaultMaxInput  = 32 << 10
	defaultMaxTokens = 1000
	// mostAnswer bounds an answer, and mostText a summary, in bytes.
	mostAnswer = 1 << 20
	mostText   = 4 << 10
	// shortestCut is the length at which a refused talk is no longer halved.
	shortestCut = 1 << 10
)

// Options configure a Summariser.
type Options struct {
	endpoint.Place
	// MaxInput is the longest talk of one request, in bytes; 0 means 32 KiB.
	MaxInput int
	// MaxTokens bounds what the model may write, its thoughts included where it has
	// any; 0 means 1000.
	MaxTokens int
	// Timeout is for one request; 0 means 30 s.
	Timeout time.Duration
}

// keyVariable holds the API key unless the URL names another variable.
const keyVariable = "TIERD_SUMMARISE_API_KEY"

// Parse reads the URL of a chat server:
//
//	openai+https://HOST/v1?model=NAME&max_input=65536
//
// and openai+http. The parameters are max_input, max_tokens, timeout and
// api_key_env. The API key is what the environment variable TIERD_SUMMARISE_API_KEY
// holds, or the one that api_key_env names, or for api.openai.com OPENAI_API_KEY.
// Errors are invalid, and quote no value.
func Parse(text string) (Options, error) {
	place, given, err := endpoint.Form{What: "a chat server", KeyVariable: keyVariable, Parameters: []string{"max_input", "max_tokens", "timeout"}}.Parse(text)
	if err != nil {
		return Options{}, err
	}
	o := Options{Place: place}
	return o, errors.Join(given.Number("max_input", &o.MaxInput), given.Number("max_tokens", &o.MaxTokens), given.Duration("timeout", &o.Timeout))
}

// Summariser asks a server. It is safe for concurrent use.
type Summariser struct {
	options Options
	server  *endpoint.Server
	// modern says that the server wants max_completion_tokens.
	modern atomic.Bool
}

var _ window.Summariser = (*Summariser)(nil)

// Open returns the summariser that a URL names: see Parse. The server is asked
// nothing yet.
func Open(url string) (*Summariser, error) {
	o, err := Parse(url)
	if err != nil {
		return nil, err
	}
	return New(o), nil
}

// New returns a summariser. It asks the server nothing yet.
func New(o Options) *Summariser {
	if o.MaxInput <= 0 {
		o.MaxInput = defaultMaxInput
	}
	if o.MaxTokens <= 0 {
		o.MaxTokens = defaultMaxTokens
	}
	return &Summariser{options: o, server: endpoint.New(endpoint.Options{Name: "the chat server", Place: o.Place, Timeout: o.Timeout, MostAnswer: mostAnswer})}
}

// Close gives up idle connections.
func (s *Summariser) Close() error {
	s.server.Close()
	return nil
}

// MaxInput implements window.Summariser.
func (s *Summariser) MaxInput() int { return s.options.MaxInput }

// Extend implements window.Summariser. A talk that is too long for the model is
// halved, its middle left out. A server that answers too late, wrongly, or not at all
// is unavailable, one that asks to wait rate_limited; a talk that it refuses is
// invalid.
func (s *Summariser) Extend(ctx context.Context, before, talk string) (string, error) {
	for {
		text, err := s.ask(ctx, before, talk)
		var refused *endpoint.Refusal
		switch {
		case err == nil:
			return text, nil
		case !errors.As(err, &refused):
			return "", err
		case !refused.TooLong || len(talk) <= shortestCut:
			return "", &tiering.Error{Code: tiering.CodeInvalid, Detail: refused.Error(), Err: err}
		}
		quarter := len(talk) / 4
		talk = strings.ToValidUTF8(talk[:quarter], "") + "\n[…]\n" + strings.ToValidUTF8(talk[len(talk)-quarter:], "")
	}
}

// ask sends one request, and a second one to a server that has another name for what
// bounds the answer.
func (s *Summariser) ask(ctx context.Context, before, talk string) (string, error) {
	q := question{Model: s.options.Model, Messages: prompt(before, talk)}
	for {
		modern := s.modern.Load()
		q.MaxTokens, q.MaxCompletionTokens = s.options.MaxTokens, 0
		if modern {
			q.MaxTokens, q.MaxCompletionTokens = 0, s.options.MaxTokens
		}
		var a answer
		err := s.server.Ask(ctx, "/chat/completions", q, &a, "a chat completion")
		var refused *endpoint.Refusal
		if !modern && errors.As(err, &refused) && refused.Says("max_completion_tokens") {
			s.modern.Store(true)
			continue
		}
		if err != nil {
			return "", err
		}
		return s.text(a)
	}
}

// text is the summary in an answer.
func (s *Summariser) text(a answer) (string, error) {
	if len(a.Choices) == 0 || a.Choices[0].Message.Content == nil {
		return "", s.server.Unavailable("answers without a message")
	}
	text := *a.Choices[0].Message.Content
	// Some servers put what a model thought before what it says.
	if _, said, ok := strings.Cut(text, "</think>"); ok {
		text = said
	} else if strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		text = "" // it was cut off before it said anything
	}
	text = strings.TrimSpace(strings.ReplaceAll(text, "\x00", ""))
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "")
	}
	if text == "" {
		return "", s.server.Unavailable("answers with an empty message")
	}
	return text, nil
}
