package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// synset is one meaning: the words that have it, the meanings it points to, and
// how the dictionary explains it.
type synset struct {
	id       string // part of speech and offset, such as n00001740
	words    []string
	pointers []pointer
	gloss    string
}

type pointer struct{ symbol, target string }

// sense is one meaning of one word. Weight is 1 for its commonest meaning.
type sense struct {
	word, synset string
}

// wordnet is the dictionary in memory. The format is described in wndb(5WN).
type wordnet struct {
	synsets []*synset // in the order of the files
	byID    map[string]*synset
	weight  map[sense]float64
}

var parts = []struct{ file, letter string }{{"noun", "n"}, {"verb", "v"}, {"adj", "a"}, {"adv", "r"}}

// readWordnet reads the folder with data.*, index.* and cntlist.rev.
func readWordnet(dir string) (*wordnet, error) {
	w := &wordnet{byID: map[string]*synset{}, weight: map[sense]float64{}}
	for _, p := range parts {
		err := eachLine(filepath.Join(dir, "data."+p.file), func(line string) error {
			s, err := parseSynset(p.letter, line)
			if err == nil {
				w.synsets = append(w.synsets, s)
				w.byID[s.id] = s
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	counts, err := readCounts(filepath.Join(dir, "cntlist.rev"))
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		err := eachLine(filepath.Join(dir, "index."+p.file), func(line string) error {
			return w.weighSenses(p.letter, line, counts)
		})
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// eachLine calls f with every line but those of the licence, which begin with
// two spaces.
func eachLine(path string, f func(line string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "  ") {
			continue
		}
		if err := f(lines.Text()); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, n, err)
		}
	}
	return lines.Err()
}

func parseSynset(part, line string) (*synset, error) {
	body, gloss, _ := strings.Cut(line, "|")
	f := strings.Fields(body)
	if len(f) < 5 {
		return nil, fmt.Errorf("%d fields", len(f))
	}
	words, err := strconv.ParseUint(f[3], 16, 16)
	if err != nil {
		return nil, err
	}
	s := &synset{id: part + f[0], gloss: strings.TrimSpace(gloss)}
	f = f[4:]
	if uint64(len(f)) < 2*words+1 {
		return nil, fmt.Errorf("%d words in %d fields", words, len(f))
	}
	for range words {
		word, _, _ := strings.Cut(strings.ToLower(f[0]), "(") // a marker such as (p) may follow
		s.words = append(s.words, word)
		f = f[2:]
	}
	pointers, err := strconv.Atoi(f[0])
	if err != nil || len(f) < 1+4*pointers {
		return nil, fmt.Errorf("%s pointers in %d fields", f[0], len(f))
	}
	for f = f[1:]; pointers > 0; pointers, f = pointers-1, f[4:] {
		target := f[2]
		if target == "s" { // a satellite adjective lies among the adjectives
			target = "a"
		}
		s.pointers = append(s.pointers, pointer{f[0], target + f[1]})
	}
	return s, nil
}

// readCounts returns how often each sense of a word was seen in tagged texts:
// lemma, part of speech and number of the sense.
func readCounts(path string) (map[string]float64, error) {
	letters := map[byte]string{'1': "n", '2': "v", '3': "a", '4': "r", '5': "a"}
	counts := map[string]float64{}
	err := eachLine(path, func(line string) error {
		f := strings.Fields(line)
		lemma, rest, ok := strings.Cut(f[0], "%")
		if len(f) != 3 || !ok || rest == "" {
			return fmt.Errorf("no sense key, number and count: %q", line)
		}
		n, err := strconv.ParseFloat(f[2], 64)
		counts[lemma+" "+letters[rest[0]]+" "+f[1]] += n
		return err
	})
	return counts, err
}

// weighSenses gives each sense of the word of one index line a weight by how
// often it is meant.
func (w *wordnet) weighSenses(part, line string, counts map[string]float64) error {
	f := strings.Fields(line)
	if len(f) < 3 {
		return fmt.Errorf("%d fields", len(f))
	}
	n, err := strconv.Atoi(f[2])
	if err != nil || n > len(f) {
		return fmt.Errorf("%s senses in %d fields", f[2], len(f))
	}
	seen := make([]float64, n)
	most := 0.0
	for i := range seen {
		seen[i] = counts[fmt.Sprintf("%s %s %d", f[0], part, i+1)] + 1/float64(i+1)
		most = max(most, seen[i])
	}
	for i, offset := range f[len(f)-n:] {
		w.weight[sense{f[0], part + offset}] = senseWeight(seen[i] / most)
	}
	return nil
}
