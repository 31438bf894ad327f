package strict

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set overrides one value before [Document.Decode], as `--set key=value` does:
// the key is a path such as "factors.rate" or "factors.rate[0]", the value any
// YAML value in flow style, such as [100, 200]. Missing mappings on the path are
// created, but an element of a list must exist. The value null removes the field,
// if the document has it. Later mistakes in the value are reported as the override's.
func (d *Document) Set(override string) error {
	key, text, ok := strings.Cut(override, "=")
	if !ok {
		return fmt.Errorf("override %q: expected key=value", short(override))
	}
	name := "--set " + short(key)
	steps, err := splitPath(key)
	if err == nil && len(steps) == 0 {
		err = errors.New("found no key, expected key=value")
	}
	if err == nil && len(steps) > maxDepth {
		err = fmt.Errorf("nested more than %d deep", maxDepth)
	}
	if err != nil {
		return Problems{{File: name, Message: err.Error()}}
	}
	if t := strings.TrimSpace(text); t == "null" || t == "~" {
		if !d.remove(steps) {
			return Problems{{File: name, Message: "an element of a list cannot be removed", Tip: "write the whole list without it"}}
		}
		return nil
	}
	value, err := d.overrideValue(name, text)
	if err != nil {
		return err
	}
	if err := d.put(steps, name, value); err != nil {
		return Problems{{File: name, Message: err.Error()}}
	}
	return nil
}

// overrideValue parses the value of an override by the rules of a file.
func (d *Document) overrideValue(name, text string) (*yaml.Node, error) {
	if strings.TrimSpace(text) == "" {
		return nil, Problems{{File: name, Message: "no value is given", Tip: "write key=value"}}
	}
	v, err := Parse(name, []byte(text))
	if err == nil {
		err = v.Err()
	}
	if ps, ok := errors.AsType[Problems](err); ok {
		for i := range ps { // lines of a value on the command line mean nothing
			ps[i].Line, ps[i].Column = 0, 0
		}
		return nil, ps
	}
	if err != nil {
		return nil, err
	}
	return v.root, nil
}

// put inserts value into the tree, and creates the missing mappings along steps.
func (d *Document) put(steps []step, name string, value *yaml.Node) error {
	mark(value, func(n *yaml.Node) { d.from[n] = name })
	at := d.root
	for i, s := range steps {
		last := i == len(steps)-1
		_, next := child(at, s)
		switch {
		case next != nil && last:
			*next = *value
			mark(next, func(n *yaml.Node) { d.from[n] = name })
			return nil
		case next != nil:
			at = next
			continue
		case s.key == "":
			return fmt.Errorf("the list has no element %d", s.index)
		case at.Kind != yaml.MappingNode:
			return fmt.Errorf("%s is not a mapping in the file: it has no field %s", short(joinSteps(steps[:i])), short(s.key))
		}
		next = value
		if !last {
			next = &yaml.Node{Kind: yaml.MappingNode}
			d.from[next] = name
		}
		at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.key}, next)
		at = next
	}
	return nil
}

// remove removes a field, if the tree has it. ok is false for an element of a list.
func (d *Document) remove(steps []step) (ok bool) {
	at := d.root
	for i, s := range steps {
		key, value := child(at, s)
		switch {
		case value == nil:
			return s.key != ""
		case i < len(steps)-1:
			at = value
			continue
		case key == nil:
			return false
		}
		n := slices.Index(at.Content, key)
		at.Content = slices.Delete(at.Content, n, n+2)
	}
	return true
}

func mark(n *yaml.Node, as func(*yaml.Node)) {
	as(n)
	for _, c := range n.Content {
		mark(c, as)
	}
}

func joinSteps(steps []step) string {
	var r *ref
	for _, s := range steps {
		r = &ref{parent: r, key: s.key, index: s.index}
	}
	return r.String()
}
