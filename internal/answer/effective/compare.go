package effective

import (
	"maps"
	"slices"
	"strings"
)

// Compare lists what differs between the trials of two treatments: first what differs in the most files,
// then by path. known is false if either has no configuration.
func Compare(a, b []Configuration) (all []Difference, known bool) {
	x, noiseA, okA := commonValues(a)
	y, noiseB, okB := commonValues(b)
	if !okA || !okB {
		return nil, false
	}
	leaveOptions(x, y)
	for _, file := range Undumped(a, b) {
		for _, side := range []Configuration{x, y} {
			maps.DeleteFunc(side, func(p Place, _ string) bool { return p.File == file && p.Path != commandLine })
		}
	}
	type change struct{ path, a, b string }
	byChange := map[change]*Difference{}
	add := func(file string, c change) {
		d := byChange[c]
		if d == nil {
			d = &Difference{Path: c.path, A: c.a, B: c.b}
			byChange[c] = d
		}
		if d.Values++; !slices.Contains(d.Files, file) {
			d.Files = append(d.Files, file)
		}
	}
	inA, inB := parents(x), parents(y)
	for place, value := range x {
		other, has := y[place]
		switch {
		case noiseA[place] || noiseB[place] || has && other == value:
		case has && place.Path == commandLine:
			was, is := words(value, other)
			add(place.File, change{place.Path, was, is})
		case has:
			add(place.File, change{place.Path, value, other})
		default:
			path, value := part(place, value, inB)
			add(place.File, change{path: path, a: value})
		}
	}
	for place, value := range y {
		if _, has := x[place]; has || noiseA[place] || noiseB[place] {
			continue
		}
		path, value := part(place, value, inA)
		add(place.File, change{path: path, b: value})
	}
	for _, d := range byChange {
		slices.Sort(d.Files)
		d.Values /= len(d.Files)
		all = append(all, *d)
	}
	slices.SortFunc(all, func(p, q Difference) int {
		if len(p.Files) != len(q.Files) {
			return len(q.Files) - len(p.Files)
		}
		return strings.Compare(p.Path+p.A+p.B, q.Path+q.A+q.B)
	})
	return all, true
}

// Difference is one value, or a whole part, that two configurations have differently.
type Difference struct {
	// Files are the proxies or pods that differ in this way.
	Files []string `json:"files"`
	Path  string   `json:"path"`
	// A and B are the values. Empty means absent. Of a part, the number of its values is in Values.
	A      string `json:"a,omitempty"`
	B      string `json:"b,omitempty"`
	Values int    `json:"values"`
}

// commonValues keeps the values that all trials of a treatment have. ok is false where there is nothing.
func commonValues(trials []Configuration) (c Configuration, unstable map[Place]bool, ok bool) {
	c, unstable = Configuration{}, map[Place]bool{}
	for _, t := range trials {
		for place, value := range t {
			if first, has := c[place]; has && first != value {
				unstable[place] = true
			} else if !has {
				c[place] = value
			}
		}
	}
	for place := range c {
		for _, t := range trials {
			if _, has := t[place]; !has {
				unstable[place] = true
			}
		}
	}
	return c, unstable, len(c) > 0
}

// Undumped are the proxies with a configuration dump in some of the trials, but not in all. Compare leaves their values
// out: a dump has more than the file that a proxy starts with.
func Undumped(a, b []Configuration) (files []string) {
	trials, dumps := map[string]int{}, map[string]int{}
	for _, t := range slices.Concat(a, b) {
		seen := map[string]bool{}
		for place := range t {
			if !seen[place.File] {
				seen[place.File] = true
				trials[place.File]++
			}
			if place.Path == dumpPath {
				dumps[place.File]++
			}
		}
	}
	for file, n := range dumps {
		if n < trials[file] {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files
}

// leaveOptions leaves the options of the mesh out if proxies' dumps of both sides have their effect: they are
// a request, which may have no effect. A side without options needs no dumps.
func leaveOptions(sides ...Configuration) {
	known := true
	for _, c := range sides {
		places := slices.Collect(maps.Keys(c))
		has := slices.ContainsFunc(places, func(p Place) bool { return p.Path == dumpPath })
		known = known && (has || !slices.ContainsFunc(places, option))
		maps.DeleteFunc(c, func(p Place, _ string) bool { return p.Path == dumpPath })
	}
	for _, c := range sides {
		maps.DeleteFunc(c, func(p Place, _ string) bool { return known && option(p) })
	}
}

// option reports whether a place is of an option of the mesh.
func option(p Place) bool { return p.File == installation && strings.HasPrefix(p.Path, "options.") }

// present is the value of a part that only one configuration has.
const present = "present"

// part is the largest part around a place that the other configuration lacks, and present; or the place and its value.
func part(p Place, value string, other map[Place]bool) (path, shown string) {
	for _, end := range ends(p.Path) {
		if upper := p.Path[:end]; !other[Place{p.File, upper}] {
			if end < len(p.Path) {
				return upper, present
			}
			return upper, value
		}
	}
	return p.Path, value
}

// parents are all places of a configuration and all parts that contain one.
func parents(c Configuration) map[Place]bool {
	all := map[Place]bool{}
	for place := range c {
		all[place] = true
		for _, end := range ends(place.Path) {
			all[Place{place.File, place.Path[:end]}] = true
		}
	}
	return all
}

// ends are the ends of the parts of a path: of each key, list and element. Names of elements have dots and brackets too.
func ends(path string) (all []int) {
	depth := 0
	for i, r := range path {
		switch r {
		case '[':
			if depth++; depth == 1 && i > 0 {
				all = append(all, i)
			}
		case ']':
			if depth = max(0, depth-1); depth == 0 {
				all = append(all, i+1)
			}
		case '.':
			if depth == 0 && i > 0 {
				all = append(all, i)
			}
		}
	}
	return all
}

// words are the parts in which two command lines differ.
func words(a, b string) (was, is string) {
	x, y := strings.Fields(a), strings.Fields(b)
	flag := ""
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		if flag = ""; strings.HasPrefix(x[0], "-") {
			flag = x[0] + " " // the words may be its value
		}
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) > 0 && len(y) > 0 {
		return flag + strings.Join(x, " "), flag + strings.Join(y, " ")
	}
	return strings.Join(x, " "), strings.Join(y, " ")
}
