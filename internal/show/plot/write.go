package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// px is a pixel of the scripts, 1/96 inch.
const px = vg.Inch / 96

// pngDPI is twice a screen's resolution, so a figure as wide as a column stays sharp in print.
const pngDPI = 192

// formats by the end of a file's name.
var formats = map[string]func(w io.Writer, root *element, title string) error{
	"svg": writeSVG, "pdf": writePDF, "png": writePNG,
}

// Formats lists the formats of a figure.
func Formats() []string { return slices.Sorted(maps.Keys(formats)) }

func writeSVG(w io.Writer, root *element, title string) error {
	width, height := size(root)
	c := vgsvg.New(width, height)
	if err := paint(c, root, height); err != nil {
		return err
	}
	var b, name bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return fmt.Errorf("write %s as SVG: %w", title, err)
	}
	if err := xml.EscapeText(&name, []byte(title)); err != nil {
		return fmt.Errorf("write %s as SVG: %w", title, err)
	}
	text := bytes.Replace(b.Bytes(), []byte("<g "), []byte("<title>"+name.String()+"</title>\n<g "), 1)
	_, err := w.Write(text)
	return err
}

// writePDF has no time: the same data give the same bytes.
func writePDF(w io.Writer, root *element, title string) error {
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultCatalogSort(true)
	width, height := size(root)
	c := vgpdf.New(width, height)
	if err := paint(c, root, height); err != nil {
		return err
	}
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write %s as PDF: %w", title, err)
	}
	return nil
}

func writePNG(w io.Writer, root *element, title string) error {
	width, height := size(root)
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(color.White))}
	if err := paint(c, root, height); err != nil {
		return err
	}
	if _, err := c.WriteTo(w); err != nil {
		return fmt.Errorf("write %s as PNG: %w", title, err)
	}
	return nil
}

func size(root *element) (w, h vg.Length) {
	return vg.Length(root.number("width", 0)) * px, vg.Length(root.number("height", 0)) * px
}

func (e *element) number(name string, absent float64) float64 {
	v, err := strconv.ParseFloat(e.Attributes[name], 64)
	if err != nil {
		return absent
	}
	return v
}
