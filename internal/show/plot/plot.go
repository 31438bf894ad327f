// Package plot writes the figures of a report as SVG, without a browser. The scripts of the page run in goja, a
// JavaScript engine in Go, with a document of elements only, and the tree they make is the file.
package plot

import (
	_ "embed"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dop251/goja"

	"github.com/tare-mesh/tare/internal/show/page"
)

//go:embed assets/document.js
var documentJS string

// ErrNoFigure: the run has no data for the figure.
var ErrNoFigure = errors.New("the run has no data for this figure")

// element of the figure's tree.
type element struct {
	Name       string            `json:"name"`
	Attributes map[string]string `json:"attributes"`
	Text       string            `json:"text"`
	Children   []element         `json:"children"`
}

// scriptTime bounds the scripts. A figure of 2,000 trials takes seconds.
const scriptTime = 2 * time.Minute

// Draw writes a figure of a page's data, such as [page.Data], as SVG.
func Draw(w io.Writer, data []byte, o page.Drawing) error {
	root, err := treeOf(data, o)
	if err != nil {
		return err
	}
	return writeSVG(w, root, o.Figure)
}

// treeOf runs the scripts.
func treeOf(data []byte, o page.Drawing) (*element, error) {
	choices, err := json.Marshal(o.Choices)
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", o.Figure, err)
	}
	options, err := json.Marshal(map[string]any{
		"width": o.Width, "columns": o.Columns, "colors": page.Colors(o.Theme), "heading": !o.NoTitle,
	})
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", o.Figure, err)
	}
	vm := goja.New()
	stop := time.AfterFunc(scriptTime, func() { vm.Interrupt("it takes too long") })
	defer stop.Stop()
	scripts := page.Scripts()
	scripts["0-document.js"] = documentJS
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		if _, err := vm.RunScript(name, scripts[name]); err != nil {
			return nil, fmt.Errorf("draw %s: %w", o.Figure, err)
		}
	}
	parse := func(text []byte) string { return "JSON.parse(" + quoted(string(text)) + ")" }
	made, err := vm.RunString(fmt.Sprintf("JSON.stringify(tareDraw(%s, %s, %s, %s))", parse(data), quoted(o.Figure), parse(choices), parse(options)))
	var thrown *goja.Exception
	if errors.As(err, &thrown) && thrown.Value() != nil { // the message without its place in a script
		if e, ok := thrown.Value().(*goja.Object); ok && e.Get("message") != nil {
			err = errors.New(e.Get("message").String())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("draw %s: %w", o.Figure, err)
	}
	var root *element
	if err := json.Unmarshal([]byte(made.String()), &root); err != nil {
		return nil, fmt.Errorf("draw %s: %w", o.Figure, err)
	}
	if root == nil {
		return nil, ErrNoFigure
	}
	return root, nil
}

// quoted is a string as JavaScript has it.
func quoted(s string) string {
	b, _ := json.Marshal(s) // a string has no error
	return string(b)
}

// MarshalXML writes the element with its attributes in the order of their names: the same data give the same bytes.
func (e *element) MarshalXML(x *xml.Encoder, _ xml.StartElement) error {
	start := xml.StartElement{Name: xml.Name{Local: e.Name}}
	for _, name := range slices.Sorted(maps.Keys(e.Attributes)) {
		start.Attr = append(start.Attr, xml.Attr{Name: xml.Name{Local: name}, Value: e.Attributes[name]})
	}
	if err := x.EncodeToken(start); err != nil {
		return err
	}
	if err := x.EncodeToken(xml.CharData(e.Text)); err != nil {
		return err
	}
	for i := range e.Children {
		if err := x.Encode(&e.Children[i]); err != nil {
			return err
		}
	}
	return x.EncodeToken(start.End())
}

// writeSVG writes the tree of a figure, with its title.
func writeSVG(w io.Writer, root *element, title string) error {
	root.Children = slices.Insert(root.Children, 0, element{Name: "title", Text: title})
	if err := xml.NewEncoder(w).Encode(root); err != nil {
		return fmt.Errorf("write %s as SVG: %w", title, err)
	}
	return nil
}
