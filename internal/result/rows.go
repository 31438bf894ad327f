package result

import (
	"bytes"
	"encoding/json"
)

// SampledRows are rows in the order of their times. Their JSON is a plain list
// of objects. Like [Cells], they have a hand-written reader and writer for
// tare's own formatting.
type SampledRows []SampledRow

// rowCells are the lists of a row by their JSON names, in order.
var rowCells = []struct {
	name string
	of   func(*SampledRow) *Cells
}{
	{`,"cores":`, func(r *SampledRow) *Cells { return &r.Cores }},
	{`,"memory":`, func(r *SampledRow) *Cells { return &r.Memory }},
	{`,"nodeCores":`, func(r *SampledRow) *Cells { return &r.NodeCores }},
	{`,"nodeMemory":`, func(r *SampledRow) *Cells { return &r.NodeMemory }},
}

// MarshalJSON writes the list.
func (rows SampledRows) MarshalJSON() ([]byte, error) {
	if rows == nil {
		return []byte("null"), nil
	}
	b := append(make([]byte, 0, 64+256*len(rows)), '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		if b = rows[i].append(b); b == nil {
			return json.Marshal([]SampledRow(rows)) // its error contains the invalid value
		}
	}
	return append(b, ']'), nil
}

// append writes the row. It returns nil if a value has no JSON form.
func (r *SampledRow) append(b []byte) []byte {
	b, err := r.At.AppendText(append(b, `{"at":"`...))
	if err != nil {
		return nil
	}
	b = append(b, '"')
	if r.Repeat {
		b = append(b, `,"repeat":true`...)
	}
	for _, list := range rowCells {
		cells := *list.of(r)
		if len(cells) == 0 {
			continue
		}
		if b = cells.append(append(b, list.name...)); b == nil {
			return nil
		}
	}
	return append(b, '}')
}

// UnmarshalJSON reads the list. encoding/json has already validated the text.
func (rows *SampledRows) UnmarshalJSON(b []byte) error {
	s := scanner{b}
	all := make(SampledRows, 0, bytes.Count(b, []byte{'{'}))
	ok := s.take("[")
	for ok && !s.take("]") {
		var r SampledRow
		if ok = s.row(&r) && (s.take(",") || s.at(']')); ok {
			all = append(all, r)
		}
	}
	if !ok {
		return json.Unmarshal(b, (*[]SampledRow)(rows))
	}
	*rows = all
	return nil
}

func (s *scanner) row(r *SampledRow) bool {
	if !s.take(`{"at":"`) {
		return false
	}
	end := bytes.IndexByte(s.rest, '"')
	if end < 0 || r.At.UnmarshalText(s.rest[:end]) != nil {
		return false
	}
	s.rest = s.rest[end+1:]
	r.Repeat = s.take(`,"repeat":true`)
	for _, list := range rowCells {
		if !s.take(list.name) {
			continue
		}
		cells, ok := s.cells()
		if !ok {
			return false
		}
		*list.of(r) = cells
	}
	return s.take("}")
}
