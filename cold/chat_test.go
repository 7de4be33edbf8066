package cold

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tierd/tierd/tiering"
)

// chatRecords makes what the archive of chat agents holds: sessions that are
// written turn by turn and interleaved, each version the whole conversation so
// far. Words follow Zipf's law over a made-up vocabulary, and every message has
// a random id, so that one document alone packs about as well as English chat
// in JSON does (a ratio near 3), and all the rest comes from likeness.
func chatRecords(sessions, turns, size int) []Record {
	rnd := rand.New(rand.NewPCG(7, 11))
	vocabulary := make([]string, 4000)
	for i := range vocabulary {
		var b strings.Builder
		for range 1 + rnd.IntN(4) {
			b.WriteByte("bcdfghklmnprstvw"[rnd.IntN(16)])
			b.WriteByte("aeiou"[rnd.IntN(5)])
			b.WriteByte("lnrst "[rnd.IntN(6)])
		}
		vocabulary[i] = strings.TrimSpace(strings.ReplaceAll(b.String(), " ", ""))
	}
	zipf := rand.NewZipf(rnd, 1.15, 4, uint64(len(vocabulary)-1))

	type message struct {
		ID      string `json:"id"`
		Role    string `json:"role"`
		Content string `json:"content"`
		At      string `json:"created_at"`
		Tokens  int    `json:"tokens"`
	}
	start := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	conversations := make([][]message, sessions)
	var out []Record
	for turn := range turns {
		for s := range sessions {
			at := start.Add(time.Duration(turn*sessions+s)*731*time.Millisecond + time.Duration(rnd.IntN(1e6)))
			for _, role := range []string{"user", "assistant"} {
				var text strings.Builder
				share := size / turns / 4
				if role == "assistant" {
					share *= 3
				}
				for text.Len() < share-130 {
					text.WriteString(vocabulary[zipf.Uint64()])
					text.WriteByte(' ')
				}
				conversations[s] = append(conversations[s], message{
					ID:   fmt.Sprintf("msg_%016x", rnd.Uint64()),
					Role: role, Content: text.String(), At: at.Format(time.RFC3339Nano), Tokens: text.Len() / 4,
				})
			}
			body, err := json.Marshal(map[string]any{"model": "m-1", "user": fmt.Sprint("u", s), "messages": conversations[s]})
			if err != nil {
				panic(err) // strings and numbers always marshal
			}
			out = append(out, put(fmt.Sprintf("session-%04d", s), int64(turn+1), at, body))
		}
	}
	return out
}

// put makes the record of one put of id in namespace chat.
func put(id string, version int64, at time.Time, body []byte) Record {
	return Record{
		Key: tiering.Key{Tenant: "acme", Namespace: "chat", ID: id}, Op: tiering.OpPut,
		Version: version, Prev: version - 1, Pos: at.UnixMilli(), At: at, CreatedAt: at.Truncate(time.Hour),
		User: "ann", Query: true, Digest: tiering.DigestOf(body), Body: body,
	}
}

// TestChatPacks: interleaved sessions come together again. A whole segment is
// at most a twelfth of its bodies, and the 20 versions of a session, which fit
// a block, are in one, so that it costs one read to get at any of them.
func TestChatPacks(t *testing.T) {
	e, err := Encode("acme", nil, chatRecords(16, 20, 20<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(e.Data))*12 > e.RawSize {
		t.Errorf("%d bytes for bodies of %d: more than a twelfth", len(e.Data), e.RawSize)
	}
	for _, l := range e.Locations {
		if len(l.Blocks) != 1 || l.MinVersion != 1 || l.MaxVersion != 20 {
			t.Errorf("%s lies in %d blocks, versions %d to %d", l.Key, len(l.Blocks), l.MinVersion, l.MaxVersion)
		}
	}
}
