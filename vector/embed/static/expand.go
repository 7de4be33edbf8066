package static

import "github.com/tierd/tierd/vector/lexical"

const (
	// leastSimilarity is the cosine from which words count as neighbours.
	leastSimilarity = 0.4
	// mostNeighbours are kept of a word. A corpus holds few of them.
	mostNeighbours = 300
	// rememberedNeighbours is for how many words they are kept, at 24 bytes a
	// neighbour: some 10 MB at most.
	rememberedNeighbours = 2000
)

// Neighbours implements lexical.Expander by the word vectors: stems of like
// meaning. A term that is no English stem has none.
func (e *Embedder) Neighbours(term string) []lexical.Neighbour {
	t, err := words()
	if err != nil {
		return nil
	}
	i, ok := t.Find(term)
	if !ok {
		return nil
	}
	return e.near.Get(i, func() []lexical.Neighbour {
		near := t.Neighbours(i, leastSimilarity, mostNeighbours)
		out := make([]lexical.Neighbour, len(near))
		for n, w := range near {
			out[n] = lexical.Neighbour{Term: t.Word(w.Word), Similarity: w.Similarity}
		}
		return out
	})
}
