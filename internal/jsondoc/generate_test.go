package jsondoc

import (
	"strings"

	"pgregory.net/rapid"
)

// genValue draws a small JSON value. Names and scalars come from few, so that
// documents share a lot, and the same meaning has several texts.
func genValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 {
			kind = min(kind, 3)
		}
		switch kind {
		case 4:
			return "[" + strings.Join(rapid.SliceOfN(genValue(depth-1), 0, 5).Draw(t, "elements"), ",") + "]"
		case 5:
			return genObject(depth).Draw(t, "object")
		}
		return rapid.SampledFrom([]string{
			"0", "1", "1.0", "10e-1", "-2.50", "9007199254740993", "1e300", "null", "true", "false",
			`""`, `"a"`, `"\u0061"`, `"<&>"`, `"\/"`, `"é\u0000\ud83d\ude00"`,
		}).Draw(t, "scalar")
	})
}

// genObject draws a JSON object, whose names may need escapes in JSON and in
// pointers.
func genObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			`"a"`, `"b"`, `"c"`, `""`, `"a/b"`, `"m~n"`, `"0"`, `"q\"<"`, `"\u00e9"`, `"-"`,
		}), 0, 5, rapid.ID[string]).Draw(t, "names")
		members := make([]string, len(names))
		for i, name := range names {
			members[i] = name + ":" + genValue(depth-1).Draw(t, "member")
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}
