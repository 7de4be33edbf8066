package client

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/tierd/tierd/tiering"
)

// eventOf reads an event, or the problem that ends the stream.
func eventOf(fr frame) (tiering.Event, error) {
	var ev tiering.Event
	if fr.event == "problem" {
		var p tiering.Problem
		if err := json.Unmarshal(fr.data, &p); err == nil && p.Code != "" {
			return ev, p.Error()
		}
	}
	if err := json.Unmarshal(fr.data, &ev); err != nil {
		return ev, &tiering.Error{Code: tiering.CodeCorrupt, Detail: "event " + strconv.Quote(fr.id) + " cannot be read", Err: err}
	}
	ev.ID = fr.id
	if ev.Type == "" {
		ev.Type = fr.event
	}
	return ev, nil
}

// seen reports whether the event id was handed over already, last being the
// latest that was. Ids are epoch.pos.index, in feed order within an epoch; the
// index is left out where a whole position was seen. Ids of different epochs
// cannot be compared: the node answers gone where that matters.
func seen(id, last string) bool {
	if id == "" || last == "" {
		return false
	}
	a, aok := parsePosition(id)
	b, bok := parsePosition(last)
	if !aok || !bok {
		return id == last
	}
	if a.epoch != b.epoch {
		return false
	}
	return a.pos < b.pos || a.pos == b.pos && a.index <= b.index
}

type position struct {
	epoch      string
	pos, index int64
}

func parsePosition(s string) (p position, ok bool) {
	parts := strings.Split(s, ".")
	switch len(parts) {
	case 2:
		p.index = 1<<63 - 1 // all of pos
	case 3:
		i, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return p, false
		}
		p.index = i
	default:
		return p, false
	}
	pos, err := strconv.ParseInt(parts[1], 10, 64)
	p.epoch, p.pos = parts[0], pos
	return p, err == nil
}
