package plot

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
)

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
