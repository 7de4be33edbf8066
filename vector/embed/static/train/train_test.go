package main

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/tierd/tierd/vector/embed/wordvec"
)

func TestParseSynset(t *testing.T) {
	got, err := parseSynset("a", `00001740 00 s 02 Able 0 ready(p) 0 002 + 05200169 n 0101 & 00002098 s 0000 | having means; "able to swim"`)
	want := &synset{
		id: "a00001740", words: []string{"able", "ready"}, gloss: `having means; "able to swim"`,
		pointers: []pointer{{"+", "n05200169"}, {"&", "a00002098"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "00001740 00 a 02 able 0 | x", "00001740 00 a zz able 0 000 | x", "00001740 00 a 01 able 0 002 + 05200169 n 0101 | x"} {
		if s, err := parseSynset("a", bad); err == nil {
			t.Errorf("%q reads as %+v", bad, s)
		}
	}
}

// small is a dictionary of a few words.
func small(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"data.noun": "  1 a licence\n" +
			"00000001 03 n 02 doctor 0 physician 0 001 @ 00000003 n 0000 | a person who treats the sick\n" +
			"00000002 03 n 02 nurse 0 caregiver 0 001 @ 00000003 n 0000 | a person who cares for the sick\n" +
			"00000003 03 n 01 person 0 000 | a human being who lives\n" +
			"00000004 03 n 02 cake 0 pastry 0 000 | sweet food made of flour and sugar\n" +
			"00000005 03 n 02 bread 0 loaf 0 000 | food made of flour and water\n",
		"index.noun": "doctor n 1 1 @ 1 1 00000001\nnurse n 1 0 1 0 00000002\ncake n 1 0 1 0 00000004\n",
		"data.verb":  "", "data.adj": "", "data.adv": "", "index.verb": "", "index.adj": "", "index.adv": "",
		"cntlist.rev": "doctor%1:18:00:: 1 9\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestASmallDictionary(t *testing.T) {
	net, err := readWordnet(small(t))
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(net)
	b.collect()
	m := b.matrix()
	for i, row := range m.rows {
		norm := 0.0
		for _, e := range row {
			norm += e.value * e.value
		}
		if math.Abs(norm-1) > 1e-9 {
			t.Errorf("the row of %s has length %v", m.stems[i], norm)
		}
	}
	if !slices.IsSorted(m.stems) || !slices.Contains(m.stems, "doctor") || slices.Contains(m.stems, "the") {
		t.Errorf("stems %v", m.stems)
	}
	if rarity(1, 100) <= rarity(50, 100) || rarity(0, 100) <= 0 {
		t.Error("what is rare is not rarer than what is common")
	}
}

func TestADictionaryThatIsNotThere(t *testing.T) {
	if err := run(t.TempDir(), filepath.Join(t.TempDir(), "words.bin")); err == nil {
		t.Error("no error")
	}
}

// TestLeftVectors holds the decomposition against a matrix whose vectors are
// known: two blocks that have nothing in common.
func TestLeftVectors(t *testing.T) {
	const blocks, columns = 2, 40
	m := &matrix{columns: blocks * columns}
	for i := range 60 {
		var row []entry
		block := i % blocks
		for c := range columns {
			wave := 1 + 0.5*math.Sin(float64(i*c))
			row = append(row, entry{int32(block*columns + c), wave / math.Sqrt(columns)}) //nolint:gosec // small
		}
		m.rows = append(m.rows, row)
	}
	v, err := leftVectors(m, 4, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	cos := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
		}
		return sum
	}
	if same, other := cos(v[0], v[2]), cos(v[0], v[1]); same < 0.8 || math.Abs(other) > 0.2 {
		t.Errorf("within a block %v, across %v", same, other)
	}
	again, err := leftVectors(m, 4, func(string) {})
	if err != nil || !reflect.DeepEqual(v, again) {
		t.Errorf("another result, %v", err)
	}
}

// TestTheFileIsWhatTheTrainerMakes holds the committed vectors against WordNet
// itself, where WORDNET names its folder. It takes more than a minute.
func TestTheFileIsWhatTheTrainerMakes(t *testing.T) {
	folder := os.Getenv("WORDNET")
	if folder == "" {
		t.Skip("WORDNET does not name the folder of WordNet 3.0")
	}
	file := filepath.Join(t.TempDir(), "words.bin")
	if err := run(folder, file); err != nil {
		t.Fatal(err)
	}
	got, want := table(t, file), table(t, "../words.bin")
	if got.Len() != want.Len() {
		t.Fatalf("%d words, and %d in the repository", got.Len(), want.Len())
	}
	for i := 0; i < got.Len(); i += 97 {
		near := func(tab *wordvec.Table) []wordvec.Near { return tab.Neighbours(i, 0.4, 5) }
		if got.Word(i) != want.Word(i) || !reflect.DeepEqual(near(got), near(want)) {
			t.Errorf("%s: near %v, and in the repository near %v", got.Word(i), near(got), near(want))
		}
	}
}

func table(t *testing.T, file string) *wordvec.Table {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := wordvec.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
