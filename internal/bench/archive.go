package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// turns is how many versions a session of the part Archive has: each is longer
// by a turn.
const turns = 50

// archive is the part Archive: versions that lie in warm go to two buckets as
// segments, and, beside them, to one bucket as an object each.
func (b *bench) archive(ctx context.Context) error {
	n, err := b.openNode(ctx, "archive", nodeOptions{archived: true})
	if err != nil {
		return err
	}
	place, err := under(b.Cold, b.id+"/objects")
	if err != nil {
		return err
	}
	single, err := openObjects(place)
	if err != nil {
		return err
	}
	b.later(single.removeAll)
	count := max(2, b.Versions/turns)
	chats := growing(count, turns)
	versions, raw := 0, 0
	for _, s := range chats {
		for _, doc := range s {
			versions++
			raw += len(doc)
		}
	}
	b.Progress(fmt.Sprintf("write %d versions", versions))
	if err := together(64, func(w int) error {
		for s := w; s < count; s += 64 {
			for _, doc := range chats[s] {
				if err := n.write(ctx, keyName(s), doc); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}

	// Half of the objects before, half after.
	half := count / 2
	b.Progress("an object a version")
	first, err := upload(ctx, single, chats[:half], 0)
	if err != nil {
		return err
	}
	b.Progress("segments")
	began := time.Now()
	if err := n.engine.Flush(ctx); err != nil {
		return err
	}
	segments := time.Since(began)
	waiting, err := n.unarchived(ctx)
	if err != nil {
		return err
	}
	second, err := upload(ctx, single, chats[half:], half)
	if err != nil {
		return err
	}

	total := float64(versions)
	what := fmt.Sprintf("%s versions", thousands(total))
	archived := total / segments.Seconds()
	before, after := float64(half*turns)/first.Seconds(), float64((count-half)*turns)/second.Seconds()
	b.report.add(Row{Part: Archive, Case: what + ": archived / an object each", Target: atLeast(10),
		Figures: fmt.Sprintf("%s/s to two buckets against %s/s to one by 16 uploaders", thousands(archived), thousands((before+after)/2))},
		archived/before, archived/after)
	b.report.add(Row{Part: Archive, Case: what + ": PUTs a copy", Target: atMost(10)}, float64(max(n.primary.puts.Load(), n.backup.puts.Load())))
	b.report.add(Row{Part: Archive, Case: what + ": bytes in a bucket / of the documents", Target: atMost(0.1),
		Figures: fmt.Sprintf("%s of %s bytes", thousands(float64(n.primary.bytes.Load())), thousands(float64(raw)))}, float64(n.primary.bytes.Load())/float64(raw))
	b.report.add(Row{Part: Archive, Case: what + ": segments waiting at the end", Target: atMost(2)}, waiting)
	return nil
}

// upload puts every version of chats as an object of its own, 16 at a time.
func upload(ctx context.Context, to *objects, chats [][][]byte, from int) (time.Duration, error) {
	began := time.Now()
	var next atomic.Int64
	err := together(16, func(int) error {
		for {
			s := int(next.Add(1)) - 1
			if s >= len(chats) {
				return nil
			}
			for v, doc := range chats[s] {
				if err := to.put(ctx, fmt.Sprintf("%s/%d", keyName(from+s), v), doc); err != nil {
					return err
				}
			}
		}
	})
	return time.Since(began), err
}
