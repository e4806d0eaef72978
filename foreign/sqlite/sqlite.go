// Package sqlite reads tables of SQLite databases without SQLite: https://www.sqlite.org/fileformat2.html. It applies a
// database's write-ahead log, writes nothing, and trusts nothing in the file.
package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf16"
)

// DB is an open database.
type DB struct {
	main   io.ReaderAt
	size   int64
	page   int64 // bytes of a page
	usable int64
	pages  uint32
	text   uint32 // encoding: 1 UTF-8, 2 UTF-16le, 3 UTF-16be
	wal    io.ReaderAt
	frames map[uint32]int64 // places of pages in the log
	tables []Table
}

// Table is a table of a database. Columns are in lower case.
type Table struct {
	Name    string
	Columns []string
	root    uint32
	rowid   int // the column that is the row's number; -1 if none
}

// Has reports whether the table has all the columns.
func (t *Table) Has(columns ...string) bool {
	for _, c := range columns {
		if t.column(c) < 0 {
			return false
		}
	}
	return true
}

func (t *Table) column(name string) int {
	for i, c := range t.Columns {
		if c == name {
			return i
		}
	}
	return -1
}

// Row is a row of a table: nil, int64, float64, string or []byte by column.
type Row map[string]any

// Text returns a column's text; "" if it has none.
func (r Row) Text(column string) string {
	switch v := r[column].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return fmt.Sprint(v)
	case float64:
		return fmt.Sprint(v)
	}
	return ""
}

const headerSize = 100

// Limits of what is read, so that a made-up file cannot use up the memory.
const (
	maxDepth = 40
	maxRow   = 64 << 20
)

var errCorrupt = errors.New("the SQLite database is damaged")

// Open opens a database, with its write-ahead log if wal is not nil.
func Open(main io.ReaderAt, size int64, wal io.ReaderAt, walSize int64) (*DB, error) {
	head := make([]byte, headerSize)
	if _, err := main.ReadAt(head, 0); err != nil {
		return nil, errCorrupt
	}
	db := &DB{main: main, size: size, page: int64(binary.BigEndian.Uint16(head[16:])), frames: map[uint32]int64{}}
	if db.page == 1 {
		db.page = 64 << 10
	}
	if db.page < 512 || db.page&(db.page-1) != 0 {
		return nil, errCorrupt
	}
	db.pages = uint32(min(size/db.page, math.MaxUint32))
	if wal != nil && walSize > 0 {
		if err := db.readLog(wal, walSize); err != nil {
			return nil, err
		}
	}
	first, err := db.read(1)
	if err != nil {
		return nil, err
	}
	db.usable = db.page - int64(first[20])
	db.text = binary.BigEndian.Uint32(first[56:])
	if db.usable < 480 {
		return nil, errCorrupt
	}
	return db, db.readSchema()
}

// readLog finds the newest version of each page in the log, up to the last commit whose checksums are right.
func (db *DB) readLog(wal io.ReaderAt, size int64) error {
	head := make([]byte, 32)
	if _, err := wal.ReadAt(head, 0); err != nil {
		return nil // it was just begun
	}
	magic := binary.BigEndian.Uint32(head)
	if magic&^1 != 0x377f0682 {
		return errors.New("its log (-wal) is damaged: close the program, or run PRAGMA wal_checkpoint")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if magic&1 == 1 {
		order = binary.BigEndian
	}
	if int64(binary.BigEndian.Uint32(head[8:])) != db.page {
		return errors.New("its log (-wal) belongs to another database")
	}
	sum := checksum(order, [2]uint32{}, head[:24])
	if sum[0] != binary.BigEndian.Uint32(head[24:]) || sum[1] != binary.BigEndian.Uint32(head[28:]) {
		return nil // the log was reset
	}
	db.wal = wal
	frame := make([]byte, 24+db.page)
	pending := map[uint32]int64{}
	for off := int64(32); off+int64(len(frame)) <= size; off += int64(len(frame)) {
		if _, err := wal.ReadAt(frame, off); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if string(frame[8:16]) != string(head[16:24]) {
			break // of an earlier use of the log
		}
		sum = checksum(order, checksum(order, sum, frame[:8]), frame[24:])
		if sum[0] != binary.BigEndian.Uint32(frame[16:]) || sum[1] != binary.BigEndian.Uint32(frame[20:]) {
			break
		}
		pending[binary.BigEndian.Uint32(frame)] = off + 24
		if pages := binary.BigEndian.Uint32(frame[4:]); pages > 0 { // a commit
			for n, at := range pending {
				db.frames[n] = at
			}
			clear(pending)
			db.pages = pages
		}
	}
	return nil
}

func checksum(order binary.ByteOrder, s [2]uint32, b []byte) [2]uint32 {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

// read returns a page.
func (db *DB) read(n uint32) ([]byte, error) {
	if n == 0 || n > db.pages {
		return nil, errCorrupt
	}
	page := make([]byte, db.page)
	from, at := db.main, int64(n-1)*db.page
	if off, ok := db.frames[n]; ok {
		from, at = db.wal, off
	}
	if _, err := from.ReadAt(page, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return page, nil
}

// Tables returns the database's tables.
func (db *DB) Tables() []Table { return db.tables }

// Table returns the table that has all the columns; nil if there is none.
func (db *DB) Table(columns ...string) *Table {
	for i := range db.tables {
		if db.tables[i].Has(columns...) {
			return &db.tables[i]
		}
	}
	return nil
}

func (db *DB) readSchema() error {
	schema := Table{Columns: []string{"type", "name", "tbl_name", "rootpage", "sql"}, root: 1, rowid: -1}
	return db.Rows(&schema, func(r Row) error {
		root, _ := r["rootpage"].(int64)
		if r.Text("type") != "table" || root <= 0 || root > math.MaxUint32 || len(db.tables) > 10_000 {
			return nil
		}
		sql := r.Text("sql")
		if up := strings.ToUpper(sql); strings.Contains(up, "WITHOUT") && strings.Contains(up, "ROWID") {
			return nil
		}
		columns, rowid := parseColumns(sql)
		db.tables = append(db.tables, Table{Name: r.Text("name"), Columns: columns, root: uint32(root), rowid: rowid})
		return nil
	})
}

// Rows visits the rows of a table in the order of their numbers.
func (db *DB) Rows(t *Table, visit func(Row) error) error {
	seen := uint32(0)
	return db.walk(t.root, 0, &seen, func(rowid int64, payload []byte) error {
		row, err := db.decode(t, rowid, payload)
		if err != nil {
			return err
		}
		return visit(row)
	})
}

// walk visits the cells of a table's tree. seen counts pages, of which there can be no more than the file has.
func (db *DB) walk(n uint32, depth int, seen *uint32, visit func(int64, []byte) error) error {
	if *seen++; depth > maxDepth || *seen > db.pages {
		return errCorrupt
	}
	page, err := db.read(n)
	if err != nil {
		return err
	}
	at := 0
	if n == 1 {
		at = headerSize
	}
	kind, cells := page[at], int(binary.BigEndian.Uint16(page[at+3:]))
	size := 8
	if kind == 5 {
		size = 12
	} else if kind != 13 {
		return errCorrupt
	}
	if at+size+2*cells > len(page) {
		return errCorrupt
	}
	for i := range cells {
		off := int(binary.BigEndian.Uint16(page[at+size+2*i:]))
		if off+4 > len(page) {
			return errCorrupt
		}
		if kind == 5 {
			err = db.walk(binary.BigEndian.Uint32(page[off:]), depth+1, seen, visit)
		} else {
			err = db.cell(page[off:], visit)
		}
		if err != nil {
			return err
		}
	}
	if kind == 5 {
		return db.walk(binary.BigEndian.Uint32(page[at+8:]), depth+1, seen, visit)
	}
	return nil
}

// cell reads a cell of a leaf, with its overflow pages.
func (db *DB) cell(b []byte, visit func(int64, []byte) error) error {
	size, n := varint(b)
	rowid, m := varint(b[n:])
	if n == 0 || m == 0 || size < 0 {
		return errCorrupt
	}
	if size > maxRow {
		return fmt.Errorf("a row has %d bytes, and the limit is %d", size, maxRow)
	}
	b = b[n+m:]
	local := size
	if most := db.usable - 35; size > most {
		least := (db.usable-12)*32/255 - 23
		if local = least + (size-least)%(db.usable-4); local > most {
			local = least
		}
	}
	if local > int64(len(b)) {
		return errCorrupt
	}
	payload := append(make([]byte, 0, local), b[:local]...)
	if size > local {
		if int64(len(b)) < local+4 {
			return errCorrupt
		}
		for next := binary.BigEndian.Uint32(b[local:]); int64(len(payload)) < size; {
			page, err := db.read(next)
			if err != nil {
				return err
			}
			payload = append(payload, page[4:4+min(db.usable-4, size-int64(len(payload)))]...)
			next = binary.BigEndian.Uint32(page)
		}
	}
	return visit(rowid, payload)
}

// decode decodes a record.
func (db *DB) decode(t *Table, rowid int64, b []byte) (Row, error) {
	size, n := varint(b)
	if n == 0 || size < int64(n) || size > int64(len(b)) {
		return nil, errCorrupt
	}
	types, values := b[n:size], b[size:]
	row := Row{}
	for i := 0; len(types) > 0; i++ {
		kind, m := varint(types)
		if m == 0 {
			return nil, errCorrupt
		}
		types = types[m:]
		v, used, ok := db.value(kind, values)
		if !ok {
			return nil, errCorrupt
		}
		values = values[used:]
		if i < len(t.Columns) {
			if v == nil && i == t.rowid {
				v = rowid
			}
			row[t.Columns[i]] = v
		}
	}
	return row, nil
}

// sizes are the numbers of bytes of the serial types 0 to 9.
var sizes = [...]int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0}

func (db *DB) value(kind int64, b []byte) (v any, used int, ok bool) {
	switch {
	case kind < 0 || kind == 10 || kind == 11:
		return nil, 0, false
	case kind < 10:
		if used = sizes[kind]; used > len(b) {
			return nil, 0, false
		}
		n := int64(0)
		for i, c := range b[:used] {
			if i == 0 {
				n = int64(int8(c))
			} else {
				n = n<<8 | int64(c)
			}
		}
		switch kind {
		case 0:
			return nil, 0, true
		case 7:
			return math.Float64frombits(uint64(n)), used, true
		case 8, 9:
			return kind - 8, 0, true
		}
		return n, used, true
	}
	size := (kind - 12) / 2
	if size > int64(len(b)) {
		return nil, 0, false
	}
	raw := b[:size]
	if kind%2 == 0 {
		return raw, int(size), true
	}
	return db.decodeText(raw), int(size), true
}

func (db *DB) decodeText(raw []byte) string {
	if db.text != 2 && db.text != 3 {
		return string(raw)
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		if db.text == 2 {
			units[i] = binary.LittleEndian.Uint16(raw[2*i:])
		} else {
			units[i] = binary.BigEndian.Uint16(raw[2*i:])
		}
	}
	return string(utf16.Decode(units))
}

// varint decodes SQLite's big-endian numbers of 1 to 9 bytes; n is 0 if b ends early.
func varint(b []byte) (v int64, n int) {
	for n < len(b) && n < 8 {
		c := b[n]
		n++
		if v = v<<7 | int64(c&0x7f); c < 0x80 {
			return v, n
		}
	}
	if n == 8 && len(b) > 8 {
		return v<<8 | int64(b[8]), 9
	}
	return 0, 0
}
