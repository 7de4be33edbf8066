package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// message is one turn of a chat.
type message struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Content string `json:"content"`
	At      string `json:"at"`
	Tokens  int    `json:"tokens"`
}

// chat is the state of an agent's session.
type chat struct {
	Agent    string         `json:"agent"`
	Session  string         `json:"session"`
	Status   string         `json:"status"`
	Vars     map[string]any `json:"vars"`
	Messages []message      `json:"messages"`
}

// words are what messages are made of, the frequent ones first.
var words = strings.Fields(`the to and a of in is you for that it on be with this I have are can your not as at or we
will from please if has by what flight order which when there one do was all my would about any need time but time
they more been how so booking no could get their also after who see out change first two here now other ticket should
find only new use like into some make just available let us before than them because user account next information
price date through day number check over reservation help day travel where well between customer passenger problem
want then under agent city confirm most model file error payment request function data system morning evening result
test issue question answer value update record list message status return service support option policy total
business economy luggage refund insurance membership address contact details summary schedule departure arrival
airport gate seat window meal upgrade cancel delay connection direct weather hotel rental meeting invoice receipt
shipping package warehouse deadline project document release version branch commit review deploy server database
index query latency budget estimate report analysis chart figure table section paragraph translate rewrite shorten
Madrid Lisbon Chicago Denver Seattle Tokyo Berlin Toronto January February September Monday Thursday Friday`)

// newMessage writes a turn of about size bytes.
func newMessage(r *rand.Rand, turn, size int) message {
	roles := []string{"user", "assistant", "tool", "assistant"}
	var text strings.Builder
	for text.Len() < size {
		if text.Len() > 0 {
			text.WriteByte(' ')
		}
		x := r.Float64()
		text.WriteString(words[int(x*x*float64(len(words)))])
		if r.IntN(12) == 0 {
			fmt.Fprintf(&text, " %c%05d.", 'A'+rune(r.IntN(26)), r.IntN(100000))
		}
	}
	at := time.Unix(1_760_000_000+int64(turn)*37+r.Int64N(30), 0).UTC()
	return message{
		ID: fmt.Sprintf("msg_%016x", r.Uint64()), Role: roles[turn%len(roles)], Content: text.String(),
		At: at.Format(time.RFC3339), Tokens: text.Len() / 4,
	}
}

func newChat(r *rand.Rand) *chat {
	return &chat{
		Agent: fmt.Sprintf("agent-%04d", r.IntN(1000)), Session: fmt.Sprintf("sess-%012x", r.Uint64()>>16), Status: "active",
		Vars: map[string]any{"step": r.IntN(40), "temperature": 0.2, "tool": words[r.IntN(len(words))]},
	}
}

func (c *chat) document() []byte {
	doc, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings and numbers only
	}
	return doc
}

// documents makes n chats of about size bytes each, always the same ones.
func documents(n, size int) [][]byte {
	r := rand.New(rand.NewPCG(uint64(size), 1))
	out := make([][]byte, n)
	for i := range out {
		c := newChat(r)
		for turn, left := 0, size-160; left > 130; turn++ {
			m := newMessage(r, turn, min(left-120, 60+r.IntN(500)))
			c.Messages = append(c.Messages, m)
			left -= len(m.Content) + 130
		}
		out[i] = c.document()
	}
	return out
}

// growing makes sessions of so many versions each: every version has one turn
// more than the one before.
func growing(sessions, versions int) [][][]byte {
	r := rand.New(rand.NewPCG(2, 3))
	out := make([][][]byte, sessions)
	for s := range out {
		c := newChat(r)
		for v := range versions {
			c.Messages = append(c.Messages, newMessage(r, v, 20+r.IntN(60)))
			c.Vars["step"] = v
			out[s] = append(out[s], c.document())
		}
	}
	return out
}

// stream is what one worker writes in one slice: keys and documents that are
// the same for every contestant.
type stream struct {
	r    *rand.Rand
	docs [][]byte
	keys int
}

func newStream(round, worker, keys int, docs [][]byte) *stream {
	return &stream{r: rand.New(rand.NewPCG(uint64(round), uint64(worker))), docs: docs, keys: keys}
}

func (s *stream) next() (id string, doc []byte) {
	return keyName(s.r.IntN(s.keys)), s.docs[s.r.IntN(len(s.docs))]
}

func keyName(i int) string { return fmt.Sprintf("agents/%04d/sessions/%06d", i%97, i) }
