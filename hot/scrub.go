package hot

import "context"

// Scrubber is a store that keeps more than it serves: entries of epochs that
// are over, and what was deleted in files of its own. An erase has it forget
// both.
type Scrubber interface {
	// Scrub removes every entry of epochs before the one in use, and of the
	// lives named, which are over too; then it makes the server's own files
	// forget what was deleted before the call. A server that refuses to is out
	// of reach, as copies of its files are. It may take as long as writing
	// everything that is held, and is safe to repeat.
	Scrub(ctx context.Context, lives []string) error
}
