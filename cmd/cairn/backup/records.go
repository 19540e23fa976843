package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kgo"
)

// recordsMagic is what a file of records begins with, before it is compressed.
const recordsMagic = "cairn records 1\n"

// maxPart bounds a part of a record; a longer one means that the file is not what it says.
const maxPart = 64 << 20

// Piece is a file of the back-up.
type Piece struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 []byte `json:"sha256"`
}

// Records is a file with the records of a partition.
type Records struct {
	Piece
	Partition int32 `json:"partition"`
	// From and Next are the offset of the first record, and the one after the last.
	From  int64 `json:"from"`
	Next  int64 `json:"next"`
	Count int64 `json:"records"`
	// Digest is SHA-256 over the records themselves, by which they are compared with what a broker has of them.
	Digest []byte `json:"digest"`
}

// fileWriter compresses into a file and keeps its checksum.
type fileWriter struct {
	file *os.File
	zip  *zstd.Encoder
	sum  hash.Hash
	size int64
	name string
}

func createFile(dir, name string) (*fileWriter, error) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &fileWriter{file: file, sum: sha256.New(), name: name}
	if w.zip, err = zstd.NewWriter(w.raw(), zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return w, nil
}

// raw is where compressed bytes go.
func (w *fileWriter) raw() io.Writer { return writerFunc(w.writeRaw) }

func (w *fileWriter) writeRaw(b []byte) (int, error) {
	n, err := w.file.Write(b)
	w.sum.Write(b[:n])
	w.size += int64(n)
	return n, err
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (w *fileWriter) Write(b []byte) (int, error) { return w.zip.Write(b) }

// Close leaves the file on the disk.
func (w *fileWriter) Close() error {
	return errors.Join(w.zip.Close(), w.file.Sync(), w.file.Close())
}

func (w *fileWriter) piece() Piece {
	return Piece{File: w.name, Bytes: w.size, SHA256: w.sum.Sum(nil)}
}

// fileReader decompresses a file.
type fileReader struct {
	*zstd.Decoder
	file *os.File
}

func openFile(dir string, p Piece) (*fileReader, error) {
	file, err := os.Open(filepath.Join(dir, filepath.FromSlash(p.File)))
	if err != nil {
		return nil, err
	}
	zip, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &fileReader{Decoder: zip, file: file}, nil
}

// Close lets go.
func (r *fileReader) Close() error {
	r.Decoder.Close()
	return r.file.Close()
}

// check compares a file with its checksum.
func (p Piece) check(dir string) error {
	file, err := os.Open(filepath.Join(dir, filepath.FromSlash(p.File)))
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, file)
	if err != nil {
		return fmt.Errorf("%s: %w", p.File, err)
	}
	if n != p.Bytes || !bytes.Equal(sum.Sum(nil), p.SHA256) {
		return fmt.Errorf("%s is damaged: it is not the file that was written", p.File)
	}
	return nil
}

// appendRecord is a record in the back-up's form: numbers as varints, bytes behind their length and one, 0 for none.
func appendRecord(b []byte, r *kgo.Record) []byte {
	b = binary.AppendUvarint(b, uint64(r.Offset))
	b = binary.AppendVarint(b, r.Timestamp.UnixMilli())
	b = appendPart(appendPart(b, r.Key), r.Value)
	b = binary.AppendUvarint(b, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		b = appendPart(appendPart(b, []byte(h.Key)), h.Value)
	}
	return b
}

func appendPart(b, part []byte) []byte {
	if part == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(part))+1), part...)
}

// readRecord reads what appendRecord wrote; io.EOF where nothing follows.
func readRecord(in *bufio.Reader) (*kgo.Record, error) {
	offset, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	p := parts{in: in}
	r := &kgo.Record{Offset: int64(offset)}
	millis, err := binary.ReadVarint(in)
	p.err = err
	r.Timestamp = time.UnixMilli(millis)
	r.Key, r.Value = p.next(), p.next()
	for range p.number() {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(p.next()), Value: p.next()})
		if p.err != nil {
			break
		}
	}
	if errors.Is(p.err, io.EOF) {
		p.err = io.ErrUnexpectedEOF
	}
	return r, p.err
}

// parts reads several and keeps the first error.
type parts struct {
	in  *bufio.Reader
	err error
}

func (p *parts) number() uint64 {
	if p.err != nil {
		return 0
	}
	var n uint64
	n, p.err = binary.ReadUvarint(p.in)
	return n
}

func (p *parts) next() []byte {
	n := p.number()
	if p.err != nil || n == 0 {
		return nil
	}
	if n > maxPart {
		p.err = fmt.Errorf("a part of %d bytes", n-1)
		return nil
	}
	b := make([]byte, n-1)
	_, p.err = io.ReadFull(p.in, b)
	return b
}

// each reads the records of a file.
func (r Records) each(dir string, do func(*kgo.Record) error) error {
	file, err := openFile(dir, r.Piece)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	in := bufio.NewReaderSize(file, 1<<20)
	magic := make([]byte, len(recordsMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != recordsMagic {
		return fmt.Errorf("%s is no file of records of this format", r.File)
	}
	for {
		record, err := readRecord(in)
		if errors.Is(err, io.EOF) && record == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.File, err)
		}
		record.Partition = r.Partition
		if err := do(record); err != nil {
			return err
		}
	}
}
