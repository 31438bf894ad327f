package session

import (
	"errors"
	"regexp"
	"strings"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/strict"
)

// weighFlags are fields of the file of tare weigh, and the flags that set them. Longer names precede their prefixes.
var weighFlags = []struct {
	field *regexp.Regexp
	flag  string
}{
	{field(`phases\.prewarm: 0s`), "--cold"},
	{field(`phases\.(?:warmup|measure|prewarm)`), "$0 of the kept file (tare run FILE --set)"},
	{field(`factors\.connections`), "--connections"},
	{field(`factors\.rate`), "--rate"},
	{field(`factors\.route(?: or load\.requests)?`), "--path"},
	{field(`load\.requests\[0\]\.path`), "--path"},
	{field(`load\.requests\[0\]\.method`), "--method"},
	{field(`load\.requests\[0\]\.body`), "--data"},
	{field(`factors\.protocol`), "--protocol"},
	{field(`factors\.mesh`), "--mesh"},
	{field(`load\.headers`), "--header"},
	{field(`applications\.[a-z0-9-]+\.env`), "--env"},
	{field(`applications\.[a-z0-9-]+\.prefix`), "--prefix"},
	{field(`applications\.[a-z0-9-]+\.beside[][0-9a-z.]*`), "--beside"},
	{field(`(?:applications\.[a-z0-9-]+|application)\.command`), "the program"},
	{field(`application\.ready`), "--ready"},
	{field(`application\.url`), "--url"},
	{field(`application\.namespace`), "--namespace"},
	{field(`application\.manifests`), "--manifests"},
	{field(`application\.entry`), "--entry"},
	{field(`application\.inPlace`), "--in-place"},
	{field(`platform\.kubeconfig`), "--kubeconfig"},
	{field(`platform\.context`), "--context"},
	{field(`platform\.image`), "--image"},
	{field(`platform\.inUse(?:: allow)?`), "--in-use"},
	{field(`meshes\.[a-z0-9-]+\.sidecar[a-z.]*`), "--sidecar"},
	{field(`meshes\.[a-z0-9-]+\.gateway[a-z.]*`), "--gateway"},
	{field(`meshes\.[a-z0-9-]+\.charts`), "--charts"},
	{field(`meshes\.[a-z0-9-]+\.version`), "--mesh-version"},
	{field(`meshes\.[a-z0-9-]+(?:\.options[a-zA-Z.]*)?`), "--option"},
}

func field(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`\b` + pattern + `(?:\[\d+\])*`)
}

// weighPhrases are hints that fit a file only, and those for flags.
var weighPhrases = strings.NewReplacer(
	"write command instead of url", "write it after -- in place of --url",
	"write platform: {kind: local}, or remove it; ", "",
	"write platform: {kind: local}", "name a program after -- in place of the application on a cluster",
	"write max for a closed loop", "",
	"or write its path in the mesh definition", "or write its path in --sidecar",
	"set --in-use", "add --in-use",
)

// InFlags returns an error of a study of tare weigh, which has no file that a person wrote: it names flags in place of
// fields, and has no lines.
func InFlags(err error) error {
	mistakes, wrong := errors.AsType[strict.Problems](err)
	if !wrong {
		if text := hint.Of(err); HintInFlags(text) != text {
			return hint.Wrap(err, HintInFlags(text))
		}
		return err
	}
	var all strict.Problems
	for _, p := range mistakes {
		_, cause, _ := strings.Cut(p.Message, ": ")
		if repeats(all, cause) {
			continue
		}
		all = append(all, strict.Problem{Message: HintInFlags(p.Message), Tip: HintInFlags(p.Tip)})
	}
	return all
}

// repeats reports whether a cause is one of a mistake before, seen from another field.
func repeats(before strict.Problems, cause string) bool {
	for _, p := range before {
		if _, earlier, ok := strings.Cut(p.Message, ": "); ok && strings.HasSuffix(cause, ": "+earlier) {
			return true
		}
	}
	return false
}

// HintInFlags is a text that names flags in place of fields.
func HintInFlags(text string) string {
	for _, f := range weighFlags {
		text = f.field.ReplaceAllString(text, f.flag)
	}
	return weighPhrases.Replace(text)
}
