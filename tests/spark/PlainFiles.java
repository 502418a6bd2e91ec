package tests;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, without the processes that it starts: one for the permissions of each new
 * file and of its checksum, and four for each file that is renamed.
 */
public class PlainFiles extends LocalFileSystem {
  public PlainFiles() {
    super(new Raw());
    setWriteChecksum(false);
  }

  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission wanted) throws IOException {
      String text = wanted.toString().substring(0, 9); // what may follow is the sticky bit's
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
    }

    /** Nothing here is a link, and Hadoop looks for one below "file:/…". */
    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return getFileStatus(path);
    }
  }

  /** The same, as streams write their checkpoints. */
  public static class Checkpoints extends DelegateToFileSystem {
    public Checkpoints(URI uri, Configuration options) throws IOException, URISyntaxException {
      super(uri, new Raw(), options, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }
}
