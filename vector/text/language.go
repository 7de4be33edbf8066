package text

import (
	"strings"

	"github.com/kljensen/snowball/english"
	"github.com/kljensen/snowball/french"
	"github.com/kljensen/snowball/hungarian"
	"github.com/kljensen/snowball/norwegian"
	"github.com/kljensen/snowball/russian"
	"github.com/kljensen/snowball/spanish"
	"github.com/kljensen/snowball/swedish"
)

// language is how words of an alphabet are treated. The zero value is English.
type language struct {
	name string
	stem func(word string, stopWords bool) string
	stop func(word string) bool
}

// languages by name. They are read only.
var languages = map[string]language{
	"":          {},
	"english":   {},
	"french":    {"french", french.Stem, french.IsStopWord},
	"hungarian": {"hungarian", hungarian.Stem, hungarian.IsStopWord},
	"norwegian": {"norwegian", norwegian.Stem, norwegian.IsStopWord},
	"russian":   {"russian", russian.Stem, russian.IsStopWord},
	"spanish":   {"spanish", spanish.Stem, spanish.IsStopWord},
	"swedish":   {"swedish", swedish.Stem, swedish.IsStopWord},
	"none":      {"none", func(w string, _ bool) string { return w }, func(string) bool { return false }},
}

// term returns the folded form of a word in lower case, its stem, and whether
// it is a stop word. Languages whose accents tell words apart are stemmed
// before these are dropped.
func (l language) term(word string) (folded, stem string, stop bool) {
	folded = dropAccents(word)
	if l.stem != nil {
		return folded, dropAccents(l.stem(word, true)), l.stop(word)
	}
	if _, stop = englishStops[folded]; stop {
		return folded, folded, true
	}
	if len(folded) <= 2 || !lettersOnly(folded) {
		return folded, folded, false
	}
	return folded, english.Stem(folded, true), false
}

// lettersOnly reports whether word is made of the letters that the English
// stemmer knows.
func lettersOnly(word string) bool {
	for i := range len(word) {
		if word[i] < 'a' || word[i] > 'z' {
			return false
		}
	}
	return true
}

// englishStops are words that say how a sentence is built and not what it is
// about: articles, pronouns, auxiliaries, prepositions, question words, and
// what apostrophes leave behind.
var englishStops = set(`
a an the this that these those
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
who whom whose which what when where why how
am is are was were be been being do does did done doing have has had having
can could will would shall should may might must ought
and or but nor if then than so because while although though unless until
of at by for with about against between into through during before after above below
to from up down in out on off over under upon within without toward towards
again further once here there all any both each either neither every few more most other another some such
no not only own same too very just also even now ever yet still
s t d m ll re ve don didn doesn isn aren wasn weren haven hasn hadn won wouldn shouldn couldn mustn ain
`)

func set(list string) map[string]struct{} {
	m := map[string]struct{}{}
	for _, w := range strings.Fields(list) {
		m[w] = struct{}{}
	}
	return m
}

// unspacedStops are function words of Chinese, longest first where one begins
// another: question words, pronouns, particles and auxiliaries that are no part
// of a longer word in ordinary use.
var unspacedStops = set(`
什么时候 为什么 怎么样 什麼時候 為什麼 怎麼樣
什么 怎么 怎样 哪里 哪儿 哪个 哪些 多少 是否 是不是 有没有 如何 为何
什麼 怎麼 怎樣 哪裡 哪裏 哪兒 哪個 多少
我们 你们 他们 她们 它们 咱们 自己 我們 你們 他們 她們 它們 咱們
这个 那个 这些 那些 这样 那样 這個 那個 這些 那些
但是 因为 所以 如果 虽然 而且 或者 还是 就是 不是 可以 因為 雖然 還是
我 你 他 她 它 您 谁 誰 这 那 這 哪
的 了 吗 呢 吧 啊 呀 嗎 哦 嘛 么 麼 们 們 很
`)

const longestStop = 4 // characters

// unspacedStop returns how many characters of the stop word run begins with, 0
// when it begins with none.
func unspacedStop(run []rune) int {
	for n := min(longestStop, len(run)); n > 0; n-- {
		if _, ok := unspacedStops[string(run[:n])]; ok {
			return n
		}
	}
	return 0
}
