package mesh

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/internal/base/strict"
)

// forms are the texts that a field may have, by the names of their tags, and how a message describes them.
var forms = map[string]struct {
	is               func(string) bool
	expected, advice string
}{

	"label":    {label.MatchString, "lower-case letters, digits and -", ""},
	"variable": {variable.MatchString, "the name of an environment variable", "use letters, digits and _"},
	"path":     {func(s string) bool { return strings.HasPrefix(s, "/") }, "a path such as /metrics", ""},
	"prefix": {func(s string) bool { star := strings.Index(s, "*"); return star < 0 || star == len(s)-1 },
		"* only at the end", "rules compare for equality or for a prefix"},
	"https": {func(s string) bool { u, err := url.Parse(s); return err == nil && u.Scheme == "https" && u.Host != "" }, "an https address", ""},
	"sha256": {func(s string) bool { sum, err := hex.DecodeString(s); return err == nil && len(sum) == 32 },
		"64 hexadecimal digits", "`sha256sum` prints it"},
}

// label is a DNS label (RFC 1123): names become parts of directory names.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// checked has rules between its own fields.
type checked interface {
	mistakes(report func(field, message, hint string))
}

// rules checks a value and everything below it by the tags of its fields:
//
//	required:"HINT"  it may not be empty
//	oneOf:"a,b"      its words
//	range:"1,65535"  the bounds of a number
//	form:"label"     its text, one of [forms]; keys:"label" is of the keys of a mapping
//	in:"install"     the data of its templates and of those below it, see [validation.samples]
//	as:"template"    its text is a template; values: of a YAML mapping; manifests: of Kubernetes objects
//
// data is the data of the templates.
func (v *validation) rules(at string, x reflect.Value, data string) {
	switch x.Kind() {
	case reflect.Pointer:
		if !x.IsNil() {
			v.rules(at, x.Elem(), data)
		}
	case reflect.Slice:
		for i := range x.Len() {
			v.rules(fmt.Sprintf("%s[%d]", at, i), x.Index(i), data)
		}
	case reflect.Map:
		for _, key := range sortedKeys(x) {
			v.rules(join(at, key.String()), x.MapIndex(key), data)
		}
	case reflect.Struct:
		v.structure(at, x, data)
	}
}

// structure checks the fields of a struct, and then its own rules.
func (v *validation) structure(at string, x reflect.Value, data string) {
	control, isControl := x.Interface().(Control)
	if isControl {
		v.begin(at, control)
	}
	for f, value := range x.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		place := join(at, name)
		if options == "inline" {
			place = at
		}
		if name != "-" {
			v.field(place, f.Tag, value, cmp.Or(f.Tag.Get("in"), data))
		}
	}
	if isControl {
		v.control[control.Name] = v.process
	}
	if c, ok := x.Interface().(checked); ok {
		c.mistakes(func(field, message, hint string) { v.report(join(at, field), message, hint) })
	}
}

// field checks one field by its tag, and the values below it.
func (v *validation) field(at string, tag reflect.StructTag, x reflect.Value, data string) {
	if advice, required := tag.Lookup("required"); required && x.IsZero() {
		v.report(at, "missing", advice)
	}
	if x.IsZero() && strings.Contains(tag.Get("yaml"), ",omitempty") {
		return
	}
	if words := tag.Get("oneOf"); words != "" {
		v.oneOf(at, x.String(), strings.Split(words, ",")...)
	}
	if bounds := tag.Get("range"); bounds != "" {
		var low, high int64
		if _, err := fmt.Sscanf(bounds, "%d,%d", &low, &high); err != nil || x.Int() < low || x.Int() > high {
			v.report(at, fmt.Sprintf("found %d, expected %d to %d", x.Int(), low, high), "")
		}
	}
	if form := tag.Get("keys"); form != "" {
		for _, key := range sortedKeys(x) {
			v.form(join(at, key.String()), key.String(), form)
		}
	}
	eachText(at, x, func(place, text string) {
		v.form(place, text, tag.Get("form"))
		if as := tag.Get("as"); as != "" && data != "" {
			v.template(place, text, v.samples(data), as)
		}
	})
	v.rules(at, x, data)
}

// eachText calls use with each text of a field: its own, of a list or of a mapping.
func eachText(at string, x reflect.Value, use func(place, text string)) {
	switch x.Kind() {
	case reflect.String:
		use(at, x.String())
	case reflect.Slice:
		for i := range x.Len() {
			eachText(fmt.Sprintf("%s[%d]", at, i), x.Index(i), use)
		}
	case reflect.Map:
		for _, key := range sortedKeys(x) {
			eachText(join(at, key.String()), x.MapIndex(key), use)
		}
	}
}

func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

func join(at, name string) string { return strings.Trim(at+"."+name, ".") }

func (v *validation) form(at, text, name string) {
	if f, ok := forms[name]; ok && text != "" && !f.is(text) {
		v.report(at, fmt.Sprintf("found %q, expected %s", text, f.expected), f.advice)
	}
}

// oneOf reports a value outside words.
func (v *validation) oneOf(path, found string, words ...string) {
	if slices.Contains(words, found) {
		return
	}
	hint := ""
	if near, ok := strict.Nearest(found, words); ok {
		hint = "did you mean " + near + "?"
	}
	v.report(path, fmt.Sprintf("found %q, expected %s", found, strings.Join(words, ", ")), hint)
}

// template parses a template and executes it for samples, so that a field that does not exist is reported when the file is
// read, not in the first trial. as is the form of its result.
func (v *validation) template(path, text string, samples []any, as string) {
	if !v.doc.Sound(path) {
		return
	}
	for _, sample := range samples {
		b, err := execute("t", text, sample)
		if err != nil {
			v.templateProblem(path, sample, err)
			return
		}
		message, hint := "", ""
		switch as {
		case "values":
			message = valuesProblem(b)
		case "manifests":
			message, hint = manifestProblem(string(b))
		}
		if message != "" {
			v.report(path, message, hint)
			return
		}
	}
}

func valuesProblem(text []byte) string {
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		return "not a YAML mapping after rendering: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	return ""
}

func manifestProblem(text string) (message, hint string) {
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		var o struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Metadata   struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		}
		if strings.TrimSpace(document) == "" {
			continue
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return "its rendered text is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "), ""
		}
		if o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "" {
			return "its rendered text is not a Kubernetes object", "it needs apiVersion, kind and metadata.name"
		}
	}
	return "", ""
}
