package generator

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// EachJMeterXMLRecord reads JMeter's JTL as XML. A sample within another one is a part of it, as in CSV, unless that one sums up
// a transaction.
func EachJMeterXMLRecord(r io.Reader, each func(Record)) error {
	token, records := &tokens{r: bufio.NewReader(r)}, 0
	d := xml.NewDecoder(token)
	fail := func(err error) error {
		line, _ := d.InputPos()
		return fmt.Errorf("read output of jmeter: line %d: %w", line, err)
	}
	roots := 0
	var within []bool // for each open element, whether its samples are parts of one
	for {
		token.read = 0
		next, err := d.Token()
		if errors.Is(err, io.EOF) && len(within) == 0 {
			return nil
		}
		if err != nil {
			return fail(err)
		}
		switch t := next.(type) {
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.StartElement:
			if len(within) == 0 {
				if roots++; roots > 1 {
					return fail(errors.New("it begins twice: files were joined"))
				}
			}
			part := len(within) > 0 && within[len(within)-1]
			if name := t.Name.Local; !part && (name == "httpSample" || name == "sample") {
				if records++; records > maxRecords {
					return tooMany("jmeter")
				}
				transaction, err := jmeterSample(t.Attr, each)
				if err != nil {
					return fail(err)
				}
				part = !transaction
			}
			if within = append(within, part); len(within) > 100 {
				return fail(errors.New("more than 100 elements within one another"))
			}
		}
	}
}

// tokens fails on a token longer than [maxRow] before the token is in memory.
type tokens struct {
	r    io.Reader
	read int // since the last token
}

func (b *tokens) Read(p []byte) (int, error) {
	if b.read > maxRow {
		return 0, fmt.Errorf("an element or text is longer than %d bytes", maxRow)
	}
	n, err := b.r.Read(p[:min(len(p), maxRow)])
	b.read += n
	return n, err
}

// jmeterSample reads the attributes of a sample. A transaction is no request of its own.
func jmeterSample(attributes []xml.Attr, each func(Record)) (transaction bool, err error) {
	a := map[string]string{}
	for _, x := range attributes {
		a[x.Name.Local] = x.Value
	}
	if strings.HasPrefix(a["rm"], jmeterTransaction) {
		return true, nil
	}
	at, err := jmeterTime(a["ts"])
	if err != nil {
		return false, err
	}
	took, err := strconv.ParseFloat(a["t"], 64)
	if err != nil || !(took >= 0) {
		return false, fmt.Errorf("t %.40q is no time", a["t"])
	}
	rec, err := jmeterRecord(at, took, a["s"], a["rc"], a["rm"])
	if err != nil {
		return false, err
	}
	if size, err := strconv.ParseInt(a["by"], 10, 64); err == nil && size >= 0 && size <= maxSize {
		rec.Size = size
	}
	each(rec)
	return false, nil
}
