package session

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/shlex"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/experiment/app"
)

// addVariant makes the application two programs: the program as it is, and with all that the options change.
func (w *weighFile) addVariant(o Weigh) error {
	if !o.changesProgram() {
		return nil
	}
	v := experiment.ApplicationVariant{From: plainVariant}
	var parts []string
	if o.Prefix != "" {
		words, err := shellWords("--prefix", o.Prefix)
		if err != nil {
			return err
		}
		v.Prefix, parts = words, append(parts, programName(words, "prefix"))
	}
	for _, text := range o.Beside {
		words, err := shellWords("--beside", text)
		if err != nil {
			return err
		}
		p := app.BesideProcess{Name: freeName(programName(words, "beside"), func(name string) bool {
			return app.ReservedBeside(name) || slices.ContainsFunc(v.Beside, func(o app.BesideProcess) bool { return o.Name == name })
		}), Command: words}
		v.Beside, parts = append(v.Beside, p), append(parts, p.Name)
	}
	for _, text := range o.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return hint.Usage(fmt.Errorf("--env %q is not NAME=value", text), "write --env NODE_OPTIONS='--require ./otel.js'")
		}
		if v.Env == nil {
			v.Env = map[string]string{}
		}
		v.Env[name], parts = addressMark.ReplaceAllString(value, "$1$${$2}"), append(parts, label(name))
	}
	name := freeName(label(strings.Join(parts, "-")), func(name string) bool {
		return name == "" || name == plainVariant || slices.Contains(app.Names(), name)
	})
	w.Applications = map[string]experiment.ApplicationVariant{plainVariant: {Own: w.Application.Own}, name: v}
	w.Application, w.Factors.Application, w.Baseline = weighApplication{}, []string{plainVariant, name}, map[string]string{experiment.ApplicationFactor: plainVariant}
	return nil
}

// plainVariant is the program as the command line has it, beside a variant.
const plainVariant = "plain"

// changesProgram reports whether the program is measured against itself with a change.
func (o Weigh) changesProgram() bool { return len(o.Env) > 0 || o.Prefix != "" || len(o.Beside) > 0 }

// addressMark is an address in a text for a process beside a program, or for the program beside it, as portMark.
var addressMark = regexp.MustCompile(`(^|[^$])\{((?:[a-z0-9-]+\.)?(?:port|host)|[a-z0-9-]+\.(?:url|pid))\}`)

// shellWords splits the text of a flag as a shell does, and marks its addresses.
func shellWords(flag, text string) ([]string, error) {
	words, err := shlex.Split(text)
	switch {
	case err != nil:
		return nil, hint.Usage(fmt.Errorf("%s %q: %w", flag, text, err), "quote as in a shell; no shell is started")
	case len(words) == 0:
		return nil, hint.Usage(errors.New(flag+" is empty"), "write a program with its arguments")
	}
	if err := knownFields(flag, words, programFields, false); err != nil {
		return nil, err
	}
	for i, word := range words {
		words[i] = addressMark.ReplaceAllString(word, "$1$${$2}")
	}
	return words, nil
}

// freeName is a name, or with the next number that makes it free.
func freeName(name string, taken func(string) bool) string {
	free := name
	for n := 2; taken(free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free
}
