"""Documents as text: ``parse`` turns a file into Markdown parts and tables, each with its page or sheet.

PDF, DOCX, HTML, Markdown, CSV, XLSX and plain text. A document comes from anywhere, so it is read in a process of its own with a
bound on time and memory; what hangs, bursts or crashes a reader costs that process and gives a clear error.
"""

from memory.files.document import FORMATS, MAX_FILE_BYTES, ParsedFile, Part, format_of
from memory.files.parser import parse

__all__ = ["FORMATS", "MAX_FILE_BYTES", "ParsedFile", "Part", "format_of", "parse"]
