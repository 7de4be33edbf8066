// Command train makes the word vectors of the static embedder from WordNet 3.0
// (Debian package wordnet-base), in about a minute:
//
//	go run ./vector/embed/static/train /usr/share/wordnet vector/embed/static/words.bin
//
// The same files give the same vectors.
package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/tierd/tierd/vector/embed/wordvec"
)

// dimensions of a word vector.
const dimensions = 256

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: train FOLDER-OF-WORDNET FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "train:", err)
		os.Exit(1)
	}
}

func run(folder, file string) error {
	start := time.Now()
	progress := func(what string) { fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(start).Seconds(), what) }
	net, err := readWordnet(folder)
	if err != nil {
		return err
	}
	progress(fmt.Sprintf("%d meanings", len(net.synsets)))
	b := newBuilder(net)
	b.collect()
	m := b.matrix()
	progress(fmt.Sprintf("%d stems, %d features", len(m.stems), m.columns))
	vectors, err := leftVectors(m, dimensions, progress)
	if err != nil {
		return err
	}
	var words []wordvec.Word
	for i, stem := range m.stems {
		words = append(words, wordvec.Word{Text: stem, Rarity: rarity(b.glossDF[stem], len(net.synsets)), Vector: vectors[i]})
	}
	var out bytes.Buffer
	if err := wordvec.Write(&out, words); err != nil {
		return err
	}
	progress(fmt.Sprintf("%d bytes", out.Len()))
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // a file of the repository
}

// rarity is the inverse document frequency of a stem among the definitions. One
// that stands in none is taken for rather rare, not for the rarest.
func rarity(df, glosses int) float64 {
	n := float64(glosses)
	most := math.Log(1 + n/1.5)
	if df == 0 {
		return 0.8 * most
	}
	return math.Log(1 + (n-float64(df)+0.5)/(float64(df)+0.5))
}
