// Package strict decodes YAML into Go structs and reports every mistake at
// once, each with its line and column and, where one is known, a hint: unknown
// fields (with the nearest known one), wrong types, duplicate keys, anchors,
// documents that are too big or not UTF-8. Experiment files, topologies and mesh
// definitions are all read through it.
package strict
